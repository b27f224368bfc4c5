"""Runs the probes inside an image, gathers what they found, and has it judged.

How a program is started in the image is passed in, so that Docker and a SIF are probed by the same code.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from stackwright.core import credentials
from stackwright.core.checks.judge import verify
from stackwright.core.checks.probes import WHO, sealed_words, tool_words, words
from stackwright.core.checks.stranger import STRANGER
from stackwright.core.model.row import Check, Stack, Tier, Verdict, World
from stackwright.core.render import configuration
from stackwright.core.steps.progress import probing
from stackwright.engines.docker import Mount
from stackwright.host.runner import Completed, Runner
from stackwright.probe import agreement as agreed
from stackwright.probe.outside.documents import Documents

PYTHON = "/opt/stack/bin/python"
TIMEOUT = 1800
"""Seconds for all probes of one container; each of them has its own limit in probes/run.py."""
FACTS_LIMIT = 64 * 2**20
"""Bytes of one JSON file. An image is not trusted to write less."""
STACK = TypeAdapter(Stack)


class Execute(Protocol):
    """Starts a program in a fresh container of the image, and waits for its end.

    The container has no network, the host's name in it resolves (Horovod's Gloo asks for its address), and
    /dev/shm of 1 GiB. ``user`` None: the image's default user; "0": root, where the engine can.
    ``read_only``: its root, with a /tmp of memory.
    """

    def __call__(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount],
        timeout: float,
        user: str | None,
        read_only: bool = False,
    ) -> Completed: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """``facts`` by probe, as ``gather`` lays them out; ``verdict`` is the judgement of them."""

    facts: Mapping[str, Any]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An image to probe: how a program starts in it, and what describes it from outside.

    Docker: ``image`` is the engine's inspect document, ``history`` the instructions that made the image. SIF:
    ``labels`` are those of the file, ``scripts`` what it runs at its start (``convert.scripts``). ``outside``
    reads the files from outside while the probes run; where it cannot, the image's own Python reads them.
    """

    world: str
    execute: Execute
    image: Mapping[str, Any] | None = None
    history: Sequence[str] | None = None
    labels: Mapping[str, str] | None = None
    scripts: Mapping[str, Any] | None = None
    outside: Callable[[], Documents] | None = None

    def description(self) -> dict[str, Any]:
        """Return the documents about the image that no probe writes; None where it has none."""
        history = None if self.history is None else {"lines": list(self.history)}
        return {"image": self.image, "history": history, "labels": self.labels, "scripts": self.scripts}


def probe_image(
    stack: Stack, subject: Subject, *, probes: Path, folder: Path, not_run: Mapping[Tier, str], gpus: int = 0,
    watch: Callable[[Callable[[], str]], None] = lambda how_far: None,
) -> Probed:  # fmt: skip
    """Probe one image and leave the facts as JSON files in ``folder``, replaced as a whole.

    ``gpus`` is how many the container gets; with none the caller says in ``not_run`` why the GPU tier did
    not run. Facts contain no credential: it is named, and removed. ``watch`` is handed what says which probe
    runs at the moment that it is asked.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fresh.chmod(0o777)  # the image has users of its own
        asked = _asked(stack, subject.world, gpus, not_run)
        watch(partial(_running, fresh, asked.words))
        errors = _probe_into(fresh, subject, probes, asked)
        _redact(fresh)
        facts = gather(fresh)
        if errors:
            facts["error"] = "; ".join(errors)
        _replace(folder, fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return Probed(facts=facts, verdict=verify(stack, facts, subject.world, not_run))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Words for probes/run.py: as the image's user, and as an unknown one with a root that is read-only."""

    words: tuple[str, ...]
    sealed: tuple[str, ...] = ()


def _asked(stack: Stack, world: str, gpus: int, not_run: Mapping[Tier, str]) -> Asked:
    """In a SIF the user is Apptainer's, and the root is read-only, in all that is asked. Tools need another
    user where that is root."""
    asked = words(stack, gpus, not_run)
    if world != World.DOCKER:
        who = () if Tier.STATIC in not_run else (WHO,)
        return Asked(words=(*asked, *who), sealed=tool_words(stack, not_run))
    return Asked(words=asked, sealed=sealed_words(stack, not_run))


def _running(fresh: Path, words: tuple[str, ...]) -> str:
    """Return which probe runs; "" when its folder has its final name, and the facts are judged."""
    if not fresh.is_dir():
        return ""
    return probing(words, lambda name: os.path.lexists(fresh / name))


def _probe_into(fresh: Path, subject: Subject, probes: Path, asked: Asked) -> tuple[str, ...]:
    """Write all facts of the image, and return what went wrong."""
    run = partial(_run, subject.execute, probes, fresh)
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(subject.outside) if subject.outside else None
        strange = pool.submit(_as_stranger, subject.execute, probes, fresh, asked.sealed)
        errors = run(None, asked.words)
        read = reading.result() if reading else None
        told, sealed = strange.result()
        errors = (*errors, *told)
    if read is None or read.files is None:  # as root, because other users may not read keys
        errors = (*run("0", ("files",)), *errors)
    description = subject.description()
    found = _credentials(description, _read(fresh / "system.json"))
    documents = {**description, "credentials": found, "sealed": sealed}
    if read is not None:
        documents |= {"ledger": read.ledger, "files": read.files, "layers": read.layers}
    for name, document in documents.items():
        if document is not None:
            (fresh / f"{name}.json").write_text(json.dumps(document, indent=1, sort_keys=True))
    return errors


def _as_stranger(
    execute: Execute, probes: Path, fresh: Path, asked: Sequence[str]
) -> tuple[tuple[str, ...], Mapping[str, Any] | None]:
    """Return what went wrong, and the facts of a container whose root is read-only; None where none is asked
    for. Both containers are started as the image starts a command."""
    if not asked:
        return (), None
    run = partial(_run, execute, probes, user=STRANGER, start=(configuration.WITH_HOME,))
    errors = run(fresh, asked=(WHO,)) if WHO in asked else ()
    with tempfile.TemporaryDirectory(prefix=f"{fresh.name}-sealed-", dir=fresh.parent) as folder:
        Path(folder).chmod(0o777)
        errors = (*errors, *run(Path(folder), asked=asked, read_only=True))
        return errors, gather(Path(folder))


def _credentials(of_image: Mapping[str, Any], system: Mapping[str, Any]) -> dict[str, Any]:
    """Search an image's configuration and what a program in it sees, before they are redacted."""
    said = {name: document for name, document in of_image.items() if document is not None}
    return credentials.found_in({**said, "environment": system.get("environment") or {}})


def _redact(folder: Path) -> None:
    for path in folder.glob("*.json"):
        document = _read(path)
        clean = credentials.redacted(document)
        if clean is not document:
            path.unlink()
            path.write_text(json.dumps(clean, indent=1, sort_keys=True))


def _run(
    execute: Execute, probes: Path, fresh: Path, user: str | None, asked: Sequence[str],
    *, start: tuple[str, ...] = (), read_only: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return what went wrong. The folders are named anew in each run: no code in the image can know them."""
    probes_at, facts_at = (f"/{secrets.token_hex(8)}" for _ in range(2))
    mounts = (
        Mount(source=probes.resolve(), target=probes_at),
        Mount(source=fresh.resolve(), target=facts_at, read_only=False),
    )
    argv = [*start, PYTHON, "-B", f"{probes_at}/run.py", facts_at, *asked]
    done = execute(argv, mounts=mounts, timeout=TIMEOUT, user=user, read_only=read_only)
    if done.ok:
        return ()
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    return (" ".join([f"the probes ended with code {done.returncode}", *last]),)


def gather(folder: Path) -> dict[str, Any]:
    """Return all JSON files of a folder of facts, in the layout that the checks read."""
    facts: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        kind, _, rest = path.stem.partition("-")
        document = _read(path)
        if kind in ("built", "gpu", "tool"):
            facts.setdefault(kind, {})[rest.split("-")[0]] = document
        elif kind == "collective":
            facts.setdefault(kind, {})[rest.replace("-", "/")] = document
        elif kind == "times":
            facts.setdefault(kind, {}).update(document)
        else:
            facts[kind] = document
    return facts


def _read(path: Path) -> dict[str, Any]:
    """One JSON object. A link is not followed: what is in the image could point it at a file of the host."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > FACTS_LIMIT:
        return {"error": f"{path.name} is no plain file of less than {FACTS_LIMIT} bytes"}
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        return {"error": f"{path.name} is not JSON: {error}"}
    return document if isinstance(document, dict) else {"error": f"{path.name} is not a JSON object"}


def _replace(folder: Path, fresh: Path) -> None:
    fresh.chmod(0o755)
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
        folder.replace(old / folder.name)
        fresh.replace(folder)
        shutil.rmtree(old)
    else:
        fresh.replace(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTests:
    """``passed`` is pytest's exit code 0; ``junit`` is written in any case but a crash of pytest."""

    junit: Path
    passed: bool
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """``words``: ``--container ID``, of one that is up, or ``--sif FILE --apptainer PROGRAM``."""

    words: tuple[str | Path, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of a run of image tests: the ``tests``, the ``facts`` that they read, their results."""

    tests: Path
    facts: Path
    junit: Path


def run_image_tests(
    runner: Runner, stack: Stack, run: RunFiles, *, world: str, not_run: Mapping[Tier, str],
    witness: Witness | None = None,
) -> ImageTests:  # fmt: skip
    """Run tests/images over a folder of facts and, where there is one, against the image itself."""
    with tempfile.TemporaryDirectory(prefix="stackwright-tests-") as folder:
        row, reasons = Path(folder) / "stack.json", Path(folder) / "not-run.json"
        row.write_bytes(STACK.dump_json(stack))
        reasons.write_text(json.dumps({str(tier): reason for tier, reason in not_run.items()}))
        argv: list[str | Path] = [
            sys.executable, "-m", "pytest", run.tests, "-q", "-p", "no:cacheprovider",
            "--junitxml", run.junit, "-o", "junit_family=xunit1", # the family that has properties
            "--row-json", row, "--facts", run.facts, "--world", world, "--not-run", reasons,
            *(witness.words if witness else ()),
        ]  # fmt: skip
        done = runner(argv, env=witness.environment if witness else None, timeout=TIMEOUT)
    return ImageTests(junit=run.junit, passed=done.ok, output=done.stdout + done.stderr)


def agreement(
    runner: Runner, stack: Stack, run: RunFiles, *, verdict: Verdict, not_run: Mapping[Tier, str],
    witness: Witness,
) -> Check:  # fmt: skip
    """Return the image tests as one more check of an image: they look by other means."""
    run.junit.unlink(missing_ok=True)  # an older one is of another run
    done = run_image_tests(runner, stack, run, world=verdict.world, not_run=not_run, witness=witness)
    last = (done.output.strip().splitlines() or ["they said nothing"])[-1]
    if not run.junit.is_file():
        return agreed.judged((), verdict, last)
    agreed.clean(run.junit)
    return agreed.judged(agreed.cases(run.junit), verdict, last)
