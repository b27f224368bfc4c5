"""A row without Horovod: what it renders, asks, starts and says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import call
from image_facts import ROW, docker_facts, failed
from report_samples import built
from rows import LOCK, SERIES, SOURCES, cell

from stackwright.core.benchmarks.nccl_tests import PROGRAMS
from stackwright.core.checks.judge import verify
from stackwright.core.checks.observed import found
from stackwright.core.checks.probes import words
from stackwright.core.components.table import installed
from stackwright.core.errors import UsageError
from stackwright.core.launch.examples import recipes
from stackwright.core.model.row import Stack, Tier
from stackwright.core.render.definition import render_definition
from stackwright.core.render.dockerfile import declared, render
from stackwright.core.render.layers import purposes
from stackwright.core.resolve.requirements import request
from stackwright.core.resolve.resolve import resolve
from stackwright.publish.attest.statements.vex import statuses

ALONE = replace(ROW, communication=(("torch_distributed", "2.6.0"),), patches=(), pip=())


def stack(**values: Any) -> Stack:
    row = cell(horovod=None, torch_distributed=True, **values)
    made = resolve(row, replace(LOCK, request=request(row)), SERIES)
    assert isinstance(made, Stack), made
    return made


def test_nothing_is_compiled_and_the_loader_still_finds_the_libraries() -> None:
    recipe = render(stack(), SOURCES)
    dockerfile = recipe.text("Dockerfile")
    assert "horovod" not in dockerfile.lower() and "toolchain" not in dockerfile
    assert "/etc/ld.so.conf.d/stackwright.conf" in dockerfile and "rm -f /var/cache/ldconfig" in dockerfile
    assert not [name for name, _ in recipe.files if name.startswith("horovod")]
    assert "AS toolchain" in render(stack(flavour="devel"), SOURCES).text("Dockerfile")


def test_the_definition_file_does_the_same_and_has_the_layers_example() -> None:
    text = render_definition(stack(), SOURCES).text("cuda12-torch.def")
    assert "/etc/ld.so.conf.d/stackwright.conf" in text
    assert "examples/torch_distributed_mnist.py train.py" in text and "examples/torch_mnist.py" not in text
    assert "horovod" not in text.lower().replace("torch_distributed", "")


def test_its_layers_have_names() -> None:
    row = stack()
    found = purposes(render(row, SOURCES), installed(row))
    assert found[:2] == ("python", "runtime packages") and found[-1] == "row"
    assert "torch" in found and "torch_distributed" not in found


def test_the_row_passes_all_checks_that_it_has_in_every_tier() -> None:
    facts = docker_facts(ALONE)
    facts["built"] = {"torch_distributed": facts["built"]["torch_distributed"]}
    assert failed(facts, ALONE) == {}
    verdict = verify(ALONE, facts, "docker", {})
    assert {str(tier): verdict.tier(tier) for tier in Tier} == dict.fromkeys(map(str, Tier), "passed")
    asked = {check.id for check in verdict.checks}
    assert not {"built.nccl", "declared.horovod", "declared.patches", "together.run"} & asked
    assert {"declared.nccl", "declared.cudnn", "distributed.nccl-backend", "collective.world"} <= asked


def test_what_was_found_is_of_the_layer_that_is_there() -> None:
    facts = docker_facts(ALONE)
    facts["built"] = {"torch_distributed": facts["built"]["torch_distributed"]}
    seen = dict(found(ALONE, facts))
    assert {"nccl": "2.21.5", "cudnn": "9.1.0.70", "torch_distributed": "2.6.0"}.items() <= seen.items()
    assert "horovod" not in seen and "horovod" not in declared(ALONE)


def test_no_probe_of_horovod_is_asked_for() -> None:
    assert words(ALONE, 1, {}) == (
        "system", "link=torch", "fabric", "ofi", f"benchmarks={','.join(PROGRAMS)}",
        "compile", "additions=native,+einops", "compiled=native",
        "built=torch_distributed",
        "collective=torch_distributed/torchrun", "collective=torch_distributed/mpi",
        "collective=torch_distributed/srun", "gpu=torch_distributed/1",
    )  # fmt: skip


def test_its_record_names_no_launcher_of_horovod_and_no_vulnerability() -> None:
    declared_now = tuple((name, value) for name, value in built().declared if name != "horovod")
    record = replace(built(), declared=(*declared_now, ("torch_distributed", "2.6.0")))
    assert "horovodrun" in {recipe.name for recipe in recipes(built(), "i")}
    assert {recipe.name for recipe in recipes(record, "i")} & {"horovodrun", "mpirun"} == {"mpirun"}
    assert set(statuses(record).values()) == {"not_affected"}


MATRIX = """
include:
  - {id: ddp, provider: debian, os: debian-13, python: "3.13", gcc: "13", cuda: "12.4", torch: "2.6.0",
     mpi: {flavour: openmpi, version: "5.0"}, gpu_arch: ["7.0", "8.0", "9.0"], LAYERS}
"""


def matrix(folder: Path, layers: str) -> str:
    (folder / "matrix.yaml").write_text(MATRIX.replace("LAYERS", layers))
    (folder / "locks").mkdir()
    row = cell(id="ddp", horovod=None, torch_distributed=True)
    text = LOCK.text.replace(LOCK.request, request(row)).replace("cuda12-torch", "ddp")
    (folder / "locks" / "ddp.txt").write_text(text)
    return str(folder / "matrix.yaml")


def test_its_launchers_are_those_of_its_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("--matrix", matrix(tmp_path, "horovod: null, torch_distributed: true"), "launch", "ddp")
    code, _, said = call(capsys, *argv, "--horovodrun", "--hosts", "a:1,b:1")
    assert code == UsageError.exit_code
    assert "--horovodrun starts programs of Horovod, and ddp has torch.distributed" in said
    assert call(capsys, *argv, "--mpirun", "--hosts", "a:1,b:1")[0] == 0


@pytest.mark.parametrize(
    "layers", ["horovod: null", "torch_distributed: false", "horovod: null, torch_distributed: false"]
)
def test_a_row_without_any_layer_is_refused(
    layers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, said = call(capsys, "--matrix", matrix(tmp_path, layers), "plan")
    assert code != 0
    assert "a row has a communication layer: without one nothing connects its ranks" in out + said
