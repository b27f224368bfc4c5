"""Two worlds of one row: what differs is seen, explained or not, and what cannot matter is left out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from image_facts import EXTENSION, docker_facts, stack
from rows import ROOT

from stackwright.core.checks.compare import COMPARED, differences
from stackwright.core.model.labels import VENDOR

FACTS = docker_facts(stack())


def changed(*path: str, to: Any) -> dict[str, Any]:
    facts = deepcopy(FACTS)
    place = facts
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return facts


def test_the_same_facts_have_no_difference() -> None:
    assert differences(FACTS, deepcopy(FACTS)) == ()


@pytest.mark.parametrize(
    "path",
    [("system", "python_packages", "torch"), ("system", "distribution_packages", "bash"), ("system", "gcc")],
)
def test_another_version_is_seen_and_nothing_explains_it(path: tuple[str, ...]) -> None:
    (found,) = differences(FACTS, changed(*path, to="0.1"))
    assert (found.path, found.other, found.why) == ("/".join(path), "0.1", "")


def test_what_one_of_them_lacks_is_seen() -> None:
    facts = deepcopy(FACTS)
    del facts["system"]["distribution_packages"]["bash"]
    (found,) = differences(FACTS, facts)
    assert (found.one, found.other) == ("5.2-1", None)
    assert [difference.path for difference in differences(FACTS, {**FACTS, "built": {}})] != []


def test_who_runs_it_is_no_difference() -> None:
    assert differences(FACTS, changed("system", "user", to={"uid": 0})) == ()
    environment = {**FACTS["system"]["environment"], "LD_LIBRARY_PATH": "/x"}
    assert differences(FACTS, changed("system", "environment", to=environment)) == ()


def test_a_driver_that_is_lent_has_another_folder_each_time() -> None:
    path = ("link", "modules", "horovod.torch", "mapped", "libcuda")
    facts = changed(*path, to=["/tmp/driver-28ehm_b8/libcuda.so.1"])
    assert differences(facts, changed(*path, to=["/tmp/driver-d1_r7fs3/libcuda.so.1"])) == ()
    assert len(differences(facts, changed(*path, to=["/usr/lib/libcuda.so.1"]))) == 1
    assert len(differences(facts, changed(*path, to=["/tmp/driver-d1_r7fs3/libnvml.so.1"]))) == 1


def test_the_cmake_of_another_day_is_explained() -> None:
    compiled = FACTS["built"]["torch"]["compiled_by"]
    (found,) = differences(FACTS, changed("built", "torch", "compiled_by", to={**compiled, "cmake": "9.9"}))
    assert "CMake" in found.why
    (found,) = differences(FACTS, changed("built", "torch", "compiled_by", to={**compiled, "gcc": "9.9"}))
    assert found.why == ""


def test_the_labels_are_compared_and_the_key_of_an_image_is_its_own() -> None:
    """Docker tells them in its description of the image, a SIF in its own."""
    of_image = {"org.stackwright.row": "r", "org.stackwright.key": "k", VENDOR: "v", "com.other": "x"}
    image = {**FACTS, "image": {"Config": {"Labels": of_image}}}
    sif = {**FACTS, "labels": {"org.stackwright.row": "q", "org.label-schema.build-arch": "amd64"}}
    vendor, key, row = differences(image, sif)
    assert (vendor.path, vendor.one, bool(vendor.why)) == (f"labels/{VENDOR}", "v", True)
    assert (key.path, key.other, bool(key.why)) == ("labels/org.stackwright.key", None, True)
    assert (row.path, row.one, row.other, row.why) == ("labels/org.stackwright.row", "r", "q", "")


def test_what_the_image_sets_is_compared() -> None:
    environment = {**FACTS["system"]["environment"], "NVIDIA_REQUIRE_CUDA": "cuda>=1.0"}
    (found,) = differences(FACTS, changed("system", "environment", to=environment))
    assert (found.path, found.why) == ("system/environment/NVIDIA_REQUIRE_CUDA", "")


def test_what_only_one_of_them_was_compiled_for_and_calls_is_not_explained() -> None:
    """Both compile by the same compiler from the same source: what comes out is the same."""
    changes: dict[str, Any] = {"kernels": {"sm": ["7.0"], "ptx": []}, "undefined": [], "old_abi": 1}
    for name, to in changes.items():
        found = differences(FACTS, changed("link", "libraries", EXTENSION, name, to=to))
        assert found
        assert {difference.why for difference in found} == {""}, name


def test_each_fact_that_is_compared_is_one_that_a_probe_writes() -> None:
    """Another name would compare nothing with nothing."""
    for path in COMPARED:
        probe, *names = path.split("/")
        source = (ROOT / "probes" / f"{probe}.py").read_text()
        assert all(f'"{name}"' in source for name in names[:1]), path
