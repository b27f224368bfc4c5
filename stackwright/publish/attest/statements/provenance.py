"""How an image was made (SLSA provenance v1), and what its checks said (in-toto test result). Pure.

Nothing of the site is in either: no mirror, no index, no host's name. The bases and the files of the build's
context are named by their digests; Python's packages by requirements.txt, which has the hash of each.

Sources: slsa.dev/spec/v1.0/provenance, in-toto attestation spec/predicates/test-result.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.benchmarks import nccl_tests
from stackwright.core.errors import AttestError
from stackwright.core.model.record import Phase, Record
from stackwright.core.model.row import Outcome, Stack, Verdict, World
from stackwright.core.ofi import plugin
from stackwright.records import files as records

BUILD_TYPE = "urn:stackwright:build:1"
"""docs/verify.md says what its parameters are."""

BUILDER = "urn:stackwright:buildkit"
WORLD = World.DOCKER


def provenance(record: Record, stack: Stack, files: Mapping[str, bytes]) -> dict[str, Any]:
    """``files`` are those of the build's context."""
    built = record.run_of(Phase.BUILD)
    metadata = {"invocationId": f"{record.row}/{built}", "startedOn": built}
    if record.finished and built == record.started:  # else it is the end of a run that only judged the image
        metadata["finishedOn"] = record.finished
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "row": record.row,
                "key": record.key,
                "declared": dict(record.declared),
            },
            "internalParameters": {"tools": dict(record.tools)},
            "resolvedDependencies": list(_dependencies(record, stack, files)),
        },
        "runDetails": {
            "builder": {"id": BUILDER, "version": dict(record.tools)},
            "metadata": metadata,
            "byproducts": [{"name": "record", "digest": {"sha256": digest(record)}}],
        },
    }


def digest(record: Record) -> str:
    """sha256 of the record as its file has it: what ties the statements of one run together."""
    return hashlib.sha256(records.dumps(record)).hexdigest()


def _dependencies(record: Record, stack: Stack, files: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    if record.image:
        name, _, found = record.image.base.partition("@sha256:")
        yield {"name": "base", "uri": f"docker:{name}", **({"digest": {"sha256": found}} if found else {})}
    base = stack.base
    if record.image and base.date and record.image.base.endswith(base.date):  # else the mirror had moved on
        release = f"{base.os}: Release of {base.suite} {base.release}, {base.date}"
        yield {"name": release, "digest": {"sha256": base.digest}}
    yield {"name": f"locks/{stack.lock.row}.txt", "digest": {"sha256": stack.lock.sha256}}
    for source in (plugin.BY_VERSION.get(stack.plugin), nccl_tests.BY_VERSION.get(stack.nccl_tests)):
        if source:
            uri = f"git+{source.REPOSITORY}@refs/tags/v{source.version}"
            yield {"name": source.archive, "uri": uri, "digest": {"gitCommit": source.commit}}
    for path, content in sorted(files.items()):
        yield {"name": path, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}


# -- the verdict -----------------------------------------------------------------------------------


def test_result(record: Record) -> dict[str, Any]:
    """Return the checks inside the image. One that was not run is in no list: the record has it, and why."""
    verdict = judged(record)
    return {
        "result": "FAILED" if verdict.failed else "PASSED",
        "configuration": [
            {"name": "record", "digest": {"sha256": digest(record)}},
            {"name": "row", "annotations": {"row": record.row, "key": record.key}},
        ],
        "passedTests": _ids(verdict, Outcome.PASSED),
        "failedTests": _ids(verdict, Outcome.FAILED),
    }


def judged(record: Record) -> Verdict:
    """Return the verdict of the image. AttestError where there is none."""
    verdict = record.verdict(WORLD)
    if verdict is None:
        raise AttestError("the image was not probed", place=record.row, hint=f"./build.py probe {record.row}")
    return verdict


def _ids(verdict: Verdict, outcome: Outcome) -> list[str]:
    return sorted(check.id for check in verdict.checks if check.outcome is outcome)
