"""How the probes are asked for, and how what they leave is read. No container is started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from image_facts import docker_facts, stack

from stackwright.core.checks.probes import sealed_words, words
from stackwright.core.checks.stranger import STRANGER
from stackwright.core.model.row import Outcome, Tier
from stackwright.engines.docker import Mount
from stackwright.host.runner import Completed
from stackwright.probe.outside.documents import Documents
from stackwright.probe.run import FACTS_LIMIT, STACK, Subject, gather, probe_image

ROW = stack()
NO_GPU = {Tier.GPU: "no device"}
LEAVES = {
    "files": "files.json", "system": "system.json", "link": "link.json", "fabric": "fabric.json",
    "ofi": "ofi.json", "benchmarks": "benchmarks.json",
    "built": "built-torch.json", "compile": "compile.json", "attack": "attack.json",
    "additions": "additions.json", "compiled": "compiled.json",
}  # fmt: skip


class Container:
    """Stands for a container: writes into the mounted folder what the probes would write there."""

    def __init__(self, code: int = 0, writes: bool = True) -> None:
        self.code, self.writes = code, writes
        self.calls: list[tuple[Sequence[str], str | None]] = []
        self.strangers: list[tuple[Sequence[str], bool]] = []

    def __call__(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount],
        timeout: float,
        user: str | None,
        read_only: bool = False,
    ) -> Completed:
        folder = next(mount.source for mount in mounts if not mount.read_only)
        facts = docker_facts(ROW)
        if user == STRANGER:
            return self._stranger(argv, folder, read_only)
        self.calls.append((argv, user))
        if self.writes and user == "0":
            (folder / "files.json").write_text(json.dumps(facts["files"]))
        elif self.writes:
            for probe in (
                "system",
                "link",
                "compile",
                "fabric",
                "ofi",
                "benchmarks",
                "additions",
                "attack",
                "together",
                "compiled",
            ):
                (folder / f"{probe}.json").write_text(json.dumps(facts[probe]))
            for name, document in facts["built"].items():
                (folder / f"built-{name}.json").write_text(json.dumps(document))
            for run, document in facts["collective"].items():
                (folder / f"collective-{run.replace('/', '-')}.json").write_text(json.dumps(document))
        return Completed(argv=tuple(argv), returncode=self.code, stdout="", stderr="no such program\n")

    def _stranger(self, argv: Sequence[str], folder: Path, read_only: bool) -> Completed:
        self.strangers.append((argv, read_only))
        facts = docker_facts(ROW)
        left = dict(facts["sealed"]) if read_only else {"stranger": facts["stranger"]}
        for run, document in left.pop("collective", {}).items():
            left[f"collective-{run.replace('/', '-')}"] = document
        left |= {f"tool-{name}": document for name, document in left.pop("tool", {}).items()}
        for name, document in left.items() if self.writes else ():
            (folder / f"{name}.json").write_text(json.dumps(document))
        return Completed(argv=tuple(argv), returncode=self.code, stdout="", stderr="")


def probe(
    container: Container, folder: Path, gpus: int = 0, files: Mapping[str, Any] | None = None
) -> tuple[dict[Tier, Outcome], dict[str, str]]:
    image = docker_facts(ROW)["image"]
    facts = docker_facts(ROW)
    outside = Documents(ledger=facts["ledger"], files=files, layers=facts["layers"])
    subject = Subject(
        world="docker", execute=container, image=image, history=["RUN true"], outside=lambda: outside
    )
    probed = probe_image(ROW, subject, probes=Path("probes"), folder=folder, not_run=NO_GPU, gpus=gpus)
    failed = {check.id: check.detail for check in probed.verdict.failed}
    return {tier: probed.verdict.tier(tier) for tier in Tier}, failed


def test_a_good_image_and_its_facts_on_the_disk(tmp_path: Path) -> None:
    folder = tmp_path / "docker"
    tiers, failed = probe(Container(), folder)
    assert failed == {}
    assert tiers == {tier: Outcome.NOT_RUN if tier is Tier.GPU else Outcome.PASSED for tier in Tier}
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *LEAVES.values(),
        *(f"built-{name}.json" for name in docker_facts(ROW)["built"]),
        "together.json",
        *(f"collective-{run.replace('/', '-')}.json" for run in docker_facts(ROW)["collective"]),
        "image.json",
        "credentials.json",
        "history.json",
        "layers.json",
        "ledger.json",
        "stranger.json",
        "sealed.json",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["docker"]


def test_who_waits_is_told_which_probe_runs_until_the_facts_are_there(tmp_path: Path) -> None:
    watched: list[Callable[[], str]] = []
    seen: list[str] = []

    class Seen(Container):
        def __call__(self, *args: Any, **more: Any) -> Completed:
            seen.append(watched[0]())
            done = super().__call__(*args, **more)
            seen.append(watched[0]())
            return done

    subject = Subject(world="docker", execute=Seen())
    probe_image(
        ROW, subject, probes=Path("probes"), folder=tmp_path / "docker", not_run=NO_GPU, watch=watched.append
    )
    assert seen[0] == "system", "before anything was written"
    assert watched[0]() == "", "judging is no probe"


def test_files_are_read_as_root_and_the_rest_as_the_image_user(tmp_path: Path) -> None:
    container = Container()
    probe(container, tmp_path / "docker")
    assert [user for _, user in container.calls] == [None, "0"]
    assert container.calls[1][0][4:] == ["files"]
    assert "files" not in container.calls[0][0]


def test_files_that_were_read_from_outside_are_not_asked_for(tmp_path: Path) -> None:
    container = Container()
    _, failed = probe(container, tmp_path / "docker", files=docker_facts(ROW)["files"])
    assert failed == {}
    assert [user for _, user in container.calls] == [None]


def test_the_folders_of_the_probes_have_another_name_in_each_run(tmp_path: Path) -> None:
    container = Container()
    probe(container, tmp_path / "docker")
    probe(container, tmp_path / "docker")
    programs = [argv[2] for argv, _ in container.calls]
    assert len(set(programs)) == len(programs) == 4, programs
    assert all(re.fullmatch("/[0-9a-f]{16}/run.py", program) for program in programs)


def test_facts_are_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "docker"
    folder.mkdir()
    (folder / "gpu-torch-1.json").write_text("{}")
    probe(Container(), folder)
    assert not (folder / "gpu-torch-1.json").exists()


def test_a_container_that_does_not_start_passes_nothing(tmp_path: Path) -> None:
    tiers, failed = probe(Container(code=127, writes=False), tmp_path / "docker")
    assert tiers[Tier.STATIC] is Outcome.FAILED
    assert tiers[Tier.LINK] is Outcome.FAILED
    assert Outcome.PASSED not in tiers.values()
    assert "the probes ended with code 127 no such program" in failed["static.host-key"]


def test_an_interrupted_probe_leaves_the_old_facts(tmp_path: Path) -> None:
    folder = tmp_path / "docker"
    probe(Container(), folder)

    class Interrupted(Container):
        def __call__(self, *_: object, **__: object) -> Completed:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probe(Interrupted(), folder)
    assert (folder / "files.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["docker"]


MEASURES = "benchmarks=all_reduce_perf,all_gather_perf,reduce_scatter_perf,sendrecv_perf,alltoall_perf"


def test_words_of_each_tier() -> None:
    assert words(ROW, 2, {}) == (
        "system", "link=torch,horovod.torch,mpi4py.MPI,deepspeed,jax", "fabric", "ofi", MEASURES, "compile",
        "additions=einops,native", "compiled=native",
        "built=torch", "attack", "built=torch_distributed", "built=mpi4py", "built=deepspeed",
        "built=jax",
        "together=horovod.torch,torch.distributed,mpi4py.MPI,deepspeed,jax",
        "collective=torch/mpi", "collective=torch/gloo",
        *(f"collective=torch_distributed/{launcher}" for launcher in ("torchrun", "mpi", "srun")),
        "collective=mpi4py/mpi", "collective=deepspeed/mpi", "collective=deepspeed/torchrun",
        "collective=jax/mpi", "collective=jax/srun",
        "gpu=torch/2", "gpu=torch_distributed/2", "gpu=jax/2",
    )  # fmt: skip
    assert words(ROW, 0, {Tier.COLLECTIVE: "no", Tier.GPU: "no"})[-1] == "built=jax"


def test_a_stranger_is_asked_with_a_root_that_can_be_written_and_with_one_that_cannot(tmp_path: Path) -> None:
    container = Container()
    probe(container, tmp_path / "docker")
    (first, second) = container.strangers
    assert first[0][0] == second[0][0] == "/usr/local/bin/with-home", "as the entry point starts a command"
    assert (first[0][5:], first[1]) == (["stranger"], False)
    assert (second[0][5:], second[1]) == (list(sealed_words(ROW, {})), True)
    assert sealed_words(ROW, {}) == (
        "stranger",
        "compile=own-caches",
        "tool=jupyterlab",
        "collective=torch/mpi",
    )
    assert sealed_words(ROW, {Tier.COLLECTIVE: "no"}) == ("stranger", "compile=own-caches", "tool=jupyterlab")
    assert sealed_words(replace(ROW, frameworks=(), communication=(), tools=()), {}) == ("stranger",)


def test_every_extension_is_asked_on_its_own() -> None:
    frameworks = (("torch", "2.8.0"), ("tensorflow", "2.20.0"), ("keras", "3.11.3"))
    row = replace(ROW, frameworks=frameworks, communication=ROW.communication[:1])
    asked = words(row, 0, {})
    assert "link=torch,tensorflow,keras,horovod.torch,horovod.tensorflow" in asked
    assert {"built=torch", "built=tensorflow", "collective=tensorflow/gloo"} <= set(asked)
    assert "built=keras" not in asked


def test_what_an_image_writes_is_not_trusted(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"of": "the host"}')
    folder = tmp_path / "facts"
    folder.mkdir()
    (folder / "files.json").symlink_to(secret)
    (folder / "system.json").write_text("not JSON")
    (folder / "link.json").write_text("[1]")
    (folder / "built-torch.json").mkdir()
    with (folder / "collective-torch-mpi.json").open("wb") as huge:
        os.ftruncate(huge.fileno(), FACTS_LIMIT + 1)
    facts = gather(folder)
    assert facts["files"].keys() == facts["system"].keys() == facts["link"].keys() == {"error"}
    assert facts["built"]["torch"].keys() == facts["collective"]["torch/mpi"].keys() == {"error"}


def test_a_stack_survives_its_way_through_json() -> None:
    assert STACK.validate_json(STACK.dump_json(ROW)) == ROW
