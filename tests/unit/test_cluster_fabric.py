"""`doctor --cluster`: what goes over a cluster's fabric, and what to bind in for it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from cluster_outputs import FI_INFO, IBV, LDD, LIBFABRIC
from clusters import HEALTHY, OLD, OPENMPI, answer, seen_on

from stackwright.core.launch.fit.image import DRIVES
from stackwright.core.launch.fit.questions import judge


@pytest.mark.parametrize(
    ("which", "outcome", "said"),
    [
        ("InfiniBand", "works", "InfiniBand on mlx5_13, port 1"),
        ("RoCE", "works", "RoCE on mlx5_2"),
        ("several", "works", "InfiniBand on mlx5_0, port 1, and 3 more"),
        ("down", "falls back to TCP", "no port is active"),
        ("none", "falls back to TCP", "no device"),
        ("Omni-Path", "falls back to TCP", "Omni-Path"),
    ],
)
def test_what_goes_over_the_fabric(which: str, outcome: str, said: str) -> None:
    found = answer(OPENMPI, "fabric", ibv_devinfo=IBV[which])
    assert (found.outcome, said in found.why) == (outcome, True), found
    assert answer(OPENMPI, "fabric", ibv_devinfo=None).outcome == "not found"


@pytest.mark.parametrize(
    ("which", "name"), [("cxi", "Slingshot"), ("efa", "EFA"), ("psm2", "Omni-Path"), ("tcp", None)]
)
@pytest.mark.parametrize("ports", [IBV["none"], None], ids=["no verbs", "no ibv_devinfo"])
def test_a_fabric_of_libfabric_alone_is_named_with_what_to_bind_in(
    which: str, name: str | None, ports: str | None
) -> None:
    said = {**HEALTHY, "fi_info": FI_INFO.get(which, f"provider: {which}\n"), "fi_info --version": LIBFABRIC}
    said = {
        **{key: text for key, text in said.items() if key != "ibv_devinfo"},
        **({"ibv_devinfo": ports} if ports else {}),
    }
    (judged,) = judge([OPENMPI], seen_on(said))
    found = next(told for told in judged.answers if told.about == "fabric")
    assert found.why.startswith(f"{name} is not driven") == (name is not None), found
    assert ("its libfabric 1.17.0 and NCCL's plugin" in found.todo) == (name is not None)
    assert found.outcome == ("falls back to TCP" if name or ports else "not found")


def test_what_is_bound_in_may_need_a_later_glibc() -> None:
    later = answer(OLD, "fabric", ibv_devinfo=IBV["Omni-Path"], ldd_version=LDD["2.41"])
    assert later.why.endswith("its libraries may ask for glibc 2.41, and the image has 2.36")


@pytest.mark.parametrize(
    ("which", "hca"),
    [("InfiniBand", None), ("RoCE", None), ("several", None), ("one of two", "mlx5_1:1")],
)
def test_no_device_is_named_alone_that_is_not(which: str, hca: str | None) -> None:
    """NCCL takes all that are active; --hca leaves it one, and of four a quarter of what they carry."""
    todo = answer(OPENMPI, "fabric", ibv_devinfo=IBV[which]).todo
    assert "--fabric infiniband" in todo
    assert re.findall(r"--hca (\S+):", todo + ":") == ([hca] if hca else [])


@pytest.mark.parametrize(
    ("which", "outcome", "said", "todo"),
    [
        ("efa", "works", "EFA by the image's libfabric 2.1.0, provider efa", "--fabric ofi --provider efa"),
        ("psm2", "works", "Omni-Path by the image's libfabric", "--fabric ofi --provider psm2"),
        (
            "cxi",
            "falls back to TCP",
            "Slingshot is not driven",
            "and its libfabric 1.17.0; with --fabric ofi",
        ),
    ],
)
def test_an_image_with_the_plugin_needs_less_of_the_host(
    which: str, outcome: str, said: str, todo: str
) -> None:
    seen = {**HEALTHY, "fi_info": FI_INFO.get(which, f"provider: {which}\n"), "fi_info --version": LIBFABRIC}
    image = replace(OPENMPI, plugin=True, providers=DRIVES["debian-13"])
    (judged,) = judge([image], seen_on({**seen, "ibv_devinfo": IBV["none"]}))
    found = next(told for told in judged.answers if told.about == "fabric")
    assert (found.outcome, said in found.why, todo in found.todo) == (outcome, True, True), found
    assert "aws-ofi-nccl" not in found.todo


def test_a_host_with_an_older_libfabric_is_told_before_it_is_bound_in() -> None:
    """What was compiled with 2.1 asks for functions of FABRIC_1.8, which libfabric has from 2.0 on."""
    seen = {**HEALTHY, "fi_info": FI_INFO["cxi"], "ibv_devinfo": IBV["none"]}
    image = replace(OPENMPI, plugin=True)
    for release, doubt in (("1.22.0", True), ("2.0.0", False)):
        said = {**seen, "fi_info --version": LIBFABRIC.replace("1.17.0", release)}
        (judged,) = judge([image], seen_on(said))
        why = next(told.why for told in judged.answers if told.about == "fabric")
        assert (f"asks for libfabric 2.0 or later, and the host has {release}" in why) is doubt
    oldest = {"2.1.0": "2.0", "1.17.0": "1.14", "1.11.0": "1.9", "": ""}
    assert {own: replace(OPENMPI, libfabric=own).oldest_libfabric for own in oldest} == oldest
