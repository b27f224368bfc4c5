"""What is proven of additions: the checks over facts, what the probe reads of a wheel, the end of %test."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from image_facts import SITE, docker_facts, failed, stack

from stackwright.core.checks.judge import verify
from stackwright.core.checks.observed import found
from stackwright.core.checks.tables import additions
from stackwright.core.model.added.distributions import Added
from stackwright.core.model.row import Package

ROOT = Path(__file__).parents[2]
NATIVE = f"{SITE}/yaml/_yaml.so"
ALONG = Package(name="safetensors", version="0.5")
BASE = stack()
PLAIN = replace(
    BASE,
    pip=(),
    compiled=(),
    lock=replace(
        BASE.lock,
        packages=tuple(
            package
            for package in BASE.lock.packages
            if package not in (*BASE.lock.added, *BASE.lock.compiled)
        ),
        added=(),
        compiled=(),
    ),
)
"""A row without additions."""
ADDED = (Package(name="einops", version="0.8.2"), Package(name="pyyaml", version="6.0.3"), ALONG)
ROW = replace(
    PLAIN,
    pip=(Added(name="einops", version="0.8.2"), Added(name="pyyaml", version="6.0.3", modules=("yaml",))),
    lock=replace(PLAIN.lock, packages=(*PLAIN.lock.packages, *ADDED), added=ADDED),
)
Change = Callable[[dict[str, Any]], object]


def facts() -> dict[str, Any]:
    made = deepcopy(docker_facts(ROW))
    del made["system"]["python_packages"]["native"]
    made["system"]["python_packages"] |= {"einops": "0.8.2", "pyyaml": "6.0.3", "safetensors": "0.5"}
    made["additions"] = {
        "distributions": {
            "einops": {"error": None, "version": "0.8.2", "modules": {"einops": module("einops")}},
            "pyyaml": {"error": None, "version": "6.0.3", "modules": {"yaml": module("yaml")}},
        },
        "libraries": {NATIVE: ["libcuda.so.1"]},
        "replaced": {},
        "hidden": {},
        "startup": {},
        "check": {"code": 0, "lines": [additions.CLEAN], "said": ""},
    }
    return made


def module(name: str) -> dict[str, Any]:
    return {"error": None, "file": f"{SITE}/{name}/__init__.py", "replaces": []}


NCCL = 'torch 2.6.0 has requirement nvidia-nccl-cu12==2.20.5; platform_system == "Linux", but you have {}.'
LACKS = "einops 0.8.2 requires nothing, which is not installed."


def test_a_good_image_is_green_and_its_versions_are_found() -> None:
    assert failed(facts(), ROW) == {}
    shown = dict(found(ROW, facts()))
    assert (shown["pip.einops"], shown["pip.pyyaml"]) == ("0.8.2", "6.0.3")


def test_a_row_without_additions_is_asked_nothing() -> None:
    ids = {check.id for check in verify(PLAIN, docker_facts(PLAIN), "docker", {}).checks}
    assert [name for name in ids if name.startswith("added.")] == ["added.apt"]


def of(name: str, **change: Any) -> Change:
    """A change of what the probe says of a distribution."""
    return lambda facts: facts["additions"]["distributions"].setdefault(name, {}).update(change)


def einops(**change: Any) -> Change:
    return of("einops", modules={"einops": {**module("einops"), **change}})


def check(code: int | None, *lines: str, said: str = "") -> Change:
    """Another answer of pip check."""
    return lambda facts: facts["additions"].update(check={"code": code, "lines": list(lines), "said": said})


def needs(*names: str) -> Change:
    return lambda facts: facts["additions"]["libraries"].update({NATIVE: list(names)})


def without(name: str) -> Change:
    return lambda facts: facts["additions"]["distributions"].pop(name)


def overlap(facts: dict[str, Any]) -> None:
    facts["additions"]["replaced"]["torch/x.py"] = ["einops", "torch"]


def hide(facts: dict[str, Any]) -> None:
    facts["additions"]["hidden"]["/opt/stack/bin/ssh"] = {"of": "einops", "hides": "/usr/bin/ssh"}


def start(facts: dict[str, Any]) -> None:
    facts["additions"]["startup"]["a.pth"] = "einops"


NOT_THERE = {"error": "it is not installed"}
FAULTS: tuple[tuple[str, Change, str], ...] = (
    ("added.import", einops(error="boom"), "einops: einops: boom"),
    ("added.import", of("pyyaml", modules={}), "pyyaml: yaml was not imported"),
    ("added.import", without("einops"), "the probe left no additions/distributions/einops"),
    ("added.origin", einops(file="/srv/e.py"), "einops of einops is imported from /srv/e.py"),
    ("added.replaced", overlap, "torch/x.py is in einops and in torch with other content"),
    ("added.hides", hide, "/opt/stack/bin/ssh of einops is found before /usr/bin/ssh"),
    ("added.hides", einops(replaces=["torch"]), "importing einops of einops replaces torch"),
    ("added.startup", start, "a.pth of einops is run by every Python"),
    ("added.together", check(1, LACKS), LACKS),
    ("added.together", check(1, NCCL.format("nvidia-nccl-cu12 9.9")), "nccl-cu12 9.9"),
    ("added.together", check(0), "no answer"),
    ("added.together", check(1, said="No module named pip"), "no answer (exit code 1): No module named pip"),
    ("added.together", check(None, said="no end"), "no end"),
    ("added.together", check(0, "fine"), "no answer"),
    ("added.libraries", needs("libgone.so.1", "libcuda.so.1"), f"{NATIVE} needs libgone.so.1"),
    ("added.libraries", of("safetensors", **NOT_THERE), "safetensors: it is not installed"),
    ("added.libraries", of("einops", **NOT_THERE), "einops: it is not installed"),
)


@pytest.mark.parametrize(("red", "change", "says"), FAULTS)
def test_exactly_the_check_of_a_fault_is_red(red: str, change: Change, says: str) -> None:
    broken = facts()
    change(broken)
    details = failed(broken, ROW)
    assert set(details) == {red}
    assert says in details[red]


def test_a_probe_that_left_nothing_is_no_yes() -> None:
    broken = facts()
    del broken["additions"]
    details = failed(broken, ROW)
    found = {"hides", "libraries", "replaced", "startup", "together"}
    assert set(details) == {f"added.{name}" for name in found}
    assert all("the probe left no additions" in detail for detail in details.values())


def test_the_nccl_of_the_row_is_no_complaint() -> None:
    changed = facts()
    check(1, NCCL.format(f"nvidia-nccl-cu12 {ROW.nccl}"))(changed)
    assert failed(changed, ROW) == {}


# ------------------------------------------------------------------------------------ the probe


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(ROOT / "probes" / "additions.py", monkeypatch)


EXTENSION = f"_x.cpython-{sys.version_info.major}{sys.version_info.minor}-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("paths", "modules"),
    [
        (("einops/__init__.py", "einops/layers/__init__.py", "einops-0.8.2.dist-info/RECORD"), ["einops"]),
        (("six.py", "six-1.0.dist-info/METADATA"), ["six"]),
        (("yaml/__init__.py", "_yaml/__init__.py", f"yaml/{EXTENSION}"), ["yaml"]),
        ((f"{EXTENSION}",), ["_x"]),
        (("google/cloud/storage/__init__.py", "google/cloud/storage/blob.py"), ["google.cloud.storage"]),
        (("name/space/one.py",), ["name.space.one"]),
        (("nvidia/nccl/lib/libnccl.so.2", "nvidia/nccl/lib/libx.so", "../../bin/run", "a b.py"), []),
        (("x/__init__.py", "x/data/not-a-module/1.py"), ["x"]),
    ],
)
def test_modules_are_those_of_the_list_of_files(
    paths: tuple[str, ...], modules: list[str], probe: ModuleType
) -> None:
    assert probe.modules(paths) == modules


def test_the_probe_reads_this_environment(probe: ModuleType) -> None:
    """Modules in fresh processes, one that is not there, and the libraries of what came along."""
    told = probe.main(["pyyaml:yaml+no_such_module", "no-such-distribution", "+markupsafe"])
    yaml = told["distributions"]["pyyaml"]["modules"]
    assert yaml["yaml"]["error"] is None and yaml["yaml"]["file"].endswith("/yaml/__init__.py")
    assert "No module named 'no_such_module'" in yaml["no_such_module"]["error"]
    assert told["distributions"]["no-such-distribution"] == {"error": "it is not installed"}
    assert "markupsafe" not in told["distributions"]
    assert any("/markupsafe/" in path for path in told["libraries"])
    assert [names for names in told["libraries"].values() if names] == []


def test_a_file_of_two_wheels_is_found_by_their_lists(probe: ModuleType, tmp_path: Path) -> None:
    lists = {
        "torch": "a.py,sha256=x,1\nb.py,sha256=y,1\nc.py,,\n",
        "more": "a.py,sha256=x,1\nd.py,sha256=d,1\n",
        "ours": "a.py,sha256=x,1\nb.py,sha256=z,1\nc.py,,\n",
    }
    for name, text in lists.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "RECORD").write_text(text)
    there = {name: str(tmp_path / name) for name in lists}
    assert probe.replaced(there, {"ours"}) == {"b.py": ["ours", "torch"]}
    assert probe.replaced(there, {"more", "not-there"}) == {}


# ------------------------------------------------------------------------------- the end of %test


ENDS: tuple[tuple[Change, str], ...] = (
    (lambda facts: None, ""),
    (einops(error="boom"), "additions, distributions, einops, modules, einops: boom"),
    (of("einops", **NOT_THERE), "it is not installed"),
    (check(1, LACKS), f"additions: {LACKS}"),
    (check(None, said="no end"), "no answer: no end"),
    (needs("libgone.so.1"), "needs libgone.so.1"),
    (overlap, "additions: torch/x.py is in einops and in torch with other content"),
    (hide, "additions: /opt/stack/bin/ssh of einops is found before /usr/bin/ssh"),
    (start, "additions: a.pth of einops is run by every Python"),
    (einops(replaces=["torch"]), "additions: importing einops replaces torch"),
    (lambda facts: facts.pop("additions"), "no facts of additions"),
)


@pytest.mark.parametrize(("change", "says"), ENDS)
def test_the_end_of_the_test_of_a_definition_file_says_it_too(
    change: Change, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = load(ROOT / "singularity" / "judge.py", monkeypatch)
    told = facts()
    change(told)
    told["built-torch"] = told["built"]["torch"]
    wrong = judge.wrong(told, ["torch"])
    assert any(says in problem for problem in wrong) if says else wrong == [], wrong
