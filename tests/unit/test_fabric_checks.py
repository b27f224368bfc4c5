"""Each library of the fabric that is absent, broken or of another release turns its own check red."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from image_facts import ROW, docker_facts, failed

from stackwright.core.model.row import Mpi


@pytest.mark.parametrize(
    ("change", "red", "said"),
    [
        ({"verbs": "no such file"}, "link.verbs", "libibverbs.so.1 does not load: no such file"),
        ({"providers": {}}, "link.verbs", "no provider"),
        ({"pmix": "no such file"}, "link.pmix", "libpmix.so.2 does not load"),
        ({"pml": None}, "link.mpi-fabric", "no pml for ucx: nothing"),
        ({"pml": ["cm", "ob1"]}, "link.mpi-fabric", "cm, ob1"),
    ],
)
def test_a_library_of_the_fabric_that_does_not_load_is_named(
    change: dict[str, Any], red: str, said: str
) -> None:
    facts = docker_facts(ROW)
    facts["fabric"] |= change
    details = failed(facts)
    assert set(details) == {red}
    assert said in details[red]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": {"libuct_ib.so.0": "file too short"}}, "libuct_ib.so.0 does not load: file too short"),
        ({"modules": {"libuct_cma.so.0": None}}, "there is no libuct_ib.so.0"),
        ({"version": None}, "tells no version"),
        ({"version": "1.10.0"}, "1.10.0, the label 1.18.1"),
        ({"transports": []}, "no transport to itself"),
    ],
)
def test_ucx_is_judged_by_its_modules_and_its_own_answers(change: dict[str, Any], said: str) -> None:
    facts = docker_facts(ROW)
    facts["fabric"]["ucx"] |= change
    details = failed(facts)
    assert set(details) == {"link.ucx"}
    assert said in details["link.ucx"]


def test_a_release_without_ucx_is_not_asked_for_it() -> None:
    row = replace(ROW, os="ubuntu-20.04")
    facts = docker_facts(row)
    facts["fabric"] |= {"ucx": {"modules": {}, "version": None, "transports": []}, "pml": ["ob1"]}
    assert not {"link.ucx", "link.mpi-fabric"} & set(failed(facts, row))


def test_an_mpich_that_is_not_built_on_ucx_is_named() -> None:
    row = replace(ROW, mpi=Mpi.of("mpich", "4.2.1"))
    facts = docker_facts(row)
    facts["fabric"] |= {"mpich": ["ch4:ofi"], "pmix": "no such file"}
    facts["system"]["mpirun"] = "HYDRA build details:\n    Version:            4.2.1\n"
    details = failed(facts, row)
    assert "ch4:ofi" in details["link.mpi-fabric"]
    assert "link.pmix" not in details
