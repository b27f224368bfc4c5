"""What was built from a definition file is not built again while it is good, but compared anew."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import call
from image_facts import ROW, docker_facts
from report_samples import definition as sample
from report_samples import verdict
from rich.console import Console
from rows import ROOT

from stackwright.build import row as pipeline
from stackwright.build.display import Display
from stackwright.build.job import FACTS, Job
from stackwright.build.sif import definition
from stackwright.build.sif.convert import SIGNED_BY
from stackwright.core.errors import BuildError, StackwrightError
from stackwright.core.model.compression import compression
from stackwright.core.model.record import DEFINITION_PHASES, Definition, Phase, Record, SifFile, Status
from stackwright.core.model.site import Site
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.sif.sign import Signer
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.records import files as record
from stackwright.records.report import definitions as of_definitions

ANEW = "it is built anew"


def written(folder: Path, facts: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("system", "files", "link"):
        (folder / f"{name}.json").write_text(json.dumps(facts[name]))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Of a host that has an apptainer and no engine."""
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path / "out")
    runner = Runner()
    apptainer = Apptainer(program=Path("/nowhere"), version="1.4.5", native=True, runner=runner)
    return Job(
        project=project, row=plan(project, cells(project, ["cuda12-torch"])).rows[0], engine=None,
        apptainer=lambda: apptainer, site=Site(mirror=None, ca=None, pip=(), proxies=()), runner=runner,
        display=Display(Console(file=io.StringIO())),
    )  # fmt: skip


@pytest.fixture
def good(job: Job) -> Path:
    """A file of yesterday, and what is known of it."""
    path = job.folder / "cuda12-torch.def.sif"
    for world in ("docker", FACTS):
        written(job.folder / "facts" / world, docker_facts(job.row.stack))
    path.write_bytes(b"yesterday")
    known = sample(
        row=job.id, key=job.row.recipe.key, verdicts=(verdict("def"),),
        definition=Definition(key=definition.recipe(job).key),
        sif=SifFile(
            path=str(path.relative_to(job.project.out.parent)), bytes=9, sha256="0" * 64, compression="zstd:3"
        ),
        tools=definition.tools(job),
    )  # fmt: skip
    record.write(known, job.project.records)
    return path


def known(job: Job) -> Record:
    found = record.latest(job.project.records, job.id, job.row.recipe.key, definition=True)
    assert found
    return found


def work(job: Job) -> tuple[Record, StackwrightError | None]:
    error: StackwrightError | None = None
    try:
        pipeline.work(job, DEFINITION_PHASES)
    except StackwrightError as stopped:
        error = stopped
    return known(job), error


def stand_in(*_: Any, **__: Any) -> None:
    raise BuildError(ANEW)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "built", stand_in)


def is_built_anew(job: Job, good: Path) -> bool:
    found, error = work(job)
    assert good.read_bytes() == b"yesterday"
    assert (found.status, found.phase) == (Status.FAILED, Phase.DEFINITION)
    return error is not None and (error.cause, found.reason) == (ANEW, ANEW)


def test_one_that_is_good_is_only_compared(good: Path, job: Job) -> None:
    before = known(job)
    found, error = work(job)
    assert error is None
    assert found.definition and found.definition.differences == ()
    assert (found.status, found.reason) == (Status.COMPLETE, "")
    assert found.seconds(Phase.DEFINITION) == before.seconds(Phase.DEFINITION)
    assert record.path_of(found, Path()) == record.path_of(before, Path()), "it is the record of that build"
    assert good.read_bytes() == b"yesterday"


def test_a_signed_one_is_good_unsigned_and_by_another_key_is_not(good: Path, job: Job, built: None) -> None:
    signed = (*known(job).tools, (SIGNED_BY, "f" * 16))
    record.write(replace(known(job), tools=signed), job.project.records)
    assert work(job)[1] is None
    signer = Signer(key=Path("/nowhere"), public=b"another")
    assert is_built_anew(replace(job, signer=signer), good)


def test_one_that_is_not_as_todays_image_loses_its_name(good: Path, job: Job) -> None:
    facts = docker_facts(job.row.stack)
    facts["system"]["gcc"] = "1.0"
    written(job.folder / "facts" / "docker", facts)
    found, error = work(job)
    assert error
    assert error.exit_code == 8
    assert (found.status, found.reason) == (
        Status.FAILED, "unexplained differences from the image: 1"
    )  # fmt: skip
    assert found.sif
    assert found.sif.path.endswith("/cuda12-torch.def.failed.sif")
    assert not good.exists()
    assert good.with_name("cuda12-torch.def.failed.sif").read_bytes() == b"yesterday"
    assert not definition.is_built(job, found), "the next run builds it anew"


@pytest.mark.parametrize(
    "change",
    [{"definition": Definition(key="0" * 64)}, {"key": "0" * 64}, {"tools": ()}, {"sif": None}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.usefixtures("built")
def test_one_of_another_content_or_of_other_checks_is_built_anew(
    change: dict[str, Any], good: Path, job: Job
) -> None:
    before = known(job)
    record.path_of(before, job.project.records).unlink()
    record.write(replace(before, **change), job.project.records)
    assert is_built_anew(job, good)


@pytest.mark.usefixtures("built")
def test_another_compression_than_it_has_is_built_anew(good: Path, job: Job) -> None:
    assert is_built_anew(replace(job, compression=compression("lz4")), good)


@pytest.mark.usefixtures("built")
def test_a_file_that_was_cut_short_is_built_anew(good: Path, job: Job) -> None:
    good.write_bytes(b"yester")
    found, error = work(job)
    assert error and error.cause == ANEW
    assert found.status is Status.FAILED


def test_a_file_of_an_earlier_release_is_continued(good: Path, job: Job) -> None:
    """Its result is in the format of that release; what the run finds is then in today's."""
    path = record.path_of(known(job), job.project.records)
    (example,) = (ROOT / "docs" / "results" / "2026-11-22" / "definition").glob("cuda12-torch.json")
    old, new = json.loads(example.read_text()), json.loads(path.read_text())
    fields = ("row", "key", "started", "sif", "tools")
    old |= {name: new[name] for name in fields} | {"definition": new["definition"]["key"]}
    path.write_text(json.dumps(old))
    found, error = work(job)
    assert error is None
    assert found.definition and found.definition.differences == ()
    assert isinstance(json.loads(path.read_text())["definition"], dict)
    assert found.seconds(Phase.DEFINITION) == old["build_seconds"]


# -- a run that ends early ---------------------------------------------------------------------------


@pytest.fixture
def killed(job: Job, good: Path) -> Path:
    """A file that was built, of a run that was killed in its probes."""
    unproven = good.with_name("cuda12-torch.def.unproven.sif")
    unproven.write_bytes(b"today")
    run = replace(
        known(job), started="2026-03-03T03:00:00Z", verdicts=(), timings=known(job).timings[:1],
    )  # fmt: skip
    assert run.sif
    sif = replace(run.sif, path=str(unproven.relative_to(job.project.out.parent)), bytes=5)
    record.write(record.entered(replace(run, sif=sif), Phase.PROBE_DEFINITION), job.project.records)
    return unproven


def test_a_run_that_was_killed_in_its_probes_continues_there(killed: Path, good: Path, job: Job) -> None:
    """It is not built a second time: it is probed, which ends at once where there is no apptainer."""
    with pytest.raises(StackwrightError):
        pipeline.work(job, DEFINITION_PHASES)
    found = known(job)
    assert (found.status, found.phase) == (Status.FAILED, Phase.PROBE_DEFINITION)
    assert found.seconds(Phase.DEFINITION) == 1260.0
    assert (killed.read_bytes(), good.read_bytes()) == (b"today", b"yesterday")
    before = record.load_all(job.project.records, definition=True).records
    assert [earlier.status for earlier in before] == [Status.COMPLETE, Status.FAILED], (
        "yesterday's is still there"
    )


def test_an_interrupt_in_the_probes_is_recorded_with_the_file(killed: Path, good: Path, job: Job) -> None:
    def interrupt() -> Apptainer:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.work(replace(job, apptainer=interrupt), DEFINITION_PHASES)
    found = known(job)
    assert (found.status, found.reason) == (Status.INTERRUPTED, "interrupted")
    assert found.sif and found.sif.path.endswith(killed.name)
    assert definition.is_built(job, found)


class Deadly(io.StringIO):
    """Kills the process when it says that a good file is compared."""

    def write(self, text: str) -> int:
        if "compared with the facts" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(text)


def test_a_kill_while_a_good_one_is_compared_loses_nothing(good: Path, job: Job) -> None:
    before = known(job)
    fatal = replace(job, display=Display(Console(file=Deadly(), width=200)))
    child = multiprocessing.get_context("fork").Process(target=work, args=(fatal,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    found = known(job)
    assert (found.status, found.phase) == (Status.INTERRUPTED, Phase.COMPARE_DEFINITION)
    assert (found.sif, found.verdicts, found.timings) == (before.sif, before.verdicts, before.timings)
    assert good.read_bytes() == b"yesterday"
    again, error = work(job)
    assert (again.status, error) == (Status.COMPLETE, None)


@pytest.mark.parametrize("passes", [True, False], ids=["passed", "failed"])
def test_one_that_was_proven_gets_its_name_and_one_that_failed_another(
    passes: bool, killed: Path, good: Path, job: Job
) -> None:
    shown = verdict("def") if passes else verdict("def", link__import="no libmpi")
    proven = replace(known(job), verdicts=(shown,))
    after = definition.compare(job, proven)
    assert not killed.exists()
    assert after.sif
    if passes:
        assert (after.sif.path[-8:], good.read_bytes()) == (".def.sif", b"today")
    else:
        assert good.read_bytes() == b"yesterday"
        assert (job.project.out.parent / after.sif.path).name == "cuda12-torch.def.failed.sif"
        assert "no libmpi" in str(definition.problem(after))


def test_facts_that_are_gone_are_probed_anew(good: Path, job: Job) -> None:
    shutil.rmtree(good.parent / "facts" / FACTS)
    found, error = work(job)
    assert error
    assert found.phase is Phase.PROBE_DEFINITION
    assert good.read_bytes() == b"yesterday"


# -- the command -------------------------------------------------------------------------------------


@pytest.fixture
def without_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with an apptainer of its own: all that is asked of it here is its version."""
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "apptainer version 1.4.5"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


def sif(job: Job, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    out = ("--out", str(job.project.out))
    return call(capsys, *out, "sif", job.id, "--from", "def", *words)


@pytest.mark.usefixtures("without_engine", "good")
def test_the_command_works_on_rows_without_an_engine(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = sif(job, capsys)
    assert code == 0, err
    assert "no engine: " in err
    assert "cuda12-torch: unchanged; compared with the facts of the image anew" in err
    name = f"out/cuda12-torch/{job.row.recipe.key[:12]}/cuda12-torch.def.sif"
    first, page = out.splitlines()
    assert first.startswith(f"{name}: 0.00 GB; static passed, link passed, ")
    assert first.endswith("; no difference from the image")
    assert page == f"page: {job.project.out}/report/index.html"
    code, out, _ = sif(job, capsys, "--format", "json")
    document = json.loads(out)
    assert (code, sorted(document)) == (0, ["definitions", "errors", "version"])
    assert document["definitions"] == [of_definitions.as_json(known(job))]


@pytest.mark.usefixtures("without_engine", "built")
def test_a_build_that_failed_is_an_error_of_the_command_too(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = sif(job, capsys)
    assert code == 7
    assert out.startswith(f"cuda12-torch: no SIF was built from its definition file: {ANEW}\n")
    assert f"error: {ANEW}" in err


@pytest.mark.parametrize(
    ("differs", "named"),
    [
        (["byte-code libpython3.13-stdlib", "wheel horovod-0.28.1"], []),
        (["wheel torch-2.6.0"], ["wheel torch-2.6.0"]),
        (["wheel other-1.0"], ["wheel other-1.0"]),
        (["byte-code torch-2.6.0"], ["byte-code torch-2.6.0"]),
        (["package gcc-13"], []),
    ],
    ids=str,
)
def test_what_each_build_makes_anew_is_no_difference_from_the_image(
    differs: list[str], named: list[str]
) -> None:
    parts = [["package libpython3.13-stdlib", "0"], ["package gcc-13", "0"], ["wheel torch-2.6.0", "0"]]
    ledger = {"parts": parts, "differs": differs}
    assert definition.without_made_anew(ROW, ledger)["differs"] == named
    assert definition.without_made_anew(ROW, {"parts": parts}) == {"parts": parts}
