"""A communication layer is added by one file and one probe (samples/demo), and shows up everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rows import ROOT

from stackwright.core.components import more
from stackwright.core.errors import UsageError

PROGRAM = ROOT / "tests" / "support" / "samples" / "demo" / "added.py"


def added(*words: str | Path) -> Any:
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = added(tmp_path_factory.mktemp("demo"))
    return found


def test_the_plan_has_its_row(tmp_path: Path) -> None:
    plan = added(tmp_path, "build.py", "plan", "--json")
    (row,) = plan["rows"]
    assert row["id"] == "demo-torch"
    assert "'demo': '1.0'" in str(row)


def test_the_lock_asks_for_what_it_needs(said: dict[str, Any]) -> None:
    own, other = said["request"]
    assert own == [*other[: other.index("setuptools") + 1], "cloudpickle"]


def test_the_rendered_files_install_it_and_nothing_of_the_other_layer(said: dict[str, Any]) -> None:
    assert "RUN --mount=type=bind,source=demo,target=/demo" in said["dockerfile"]
    assert "cp -r /demo/. /opt/stack" in said["definition"]
    assert {"demo/demo.py", "demo/demo-1.0.dist-info/METADATA"} <= set(said["files"])
    for text in (said["dockerfile"], said["definition"], *said["files"]):
        assert "horovod" not in text.lower()
    assert "with Demo 1.0 on debian-13" in said["dockerfile"]
    assert said["patches"] == []


def test_its_probe_is_asked_for_and_that_of_the_other_layer_is_not(said: dict[str, Any]) -> None:
    assert said["words"] == ["system", "link=torch,demo", "fabric", "compile", "demo"]
    assert "attack" in said["of_horovod"] and "demo" not in said["of_horovod"]


def test_its_check_passes_and_a_planted_fault_turns_it_red(said: dict[str, Any]) -> None:
    assert said["checks"]["declared.demo"] == said["checks"]["demo.allreduce"] == "passed"
    changed = {name for name, outcome in said["checks"].items() if said["broken"][name] != outcome}
    assert changed == {"demo.allreduce"} and said["broken"]["demo.allreduce"] == "failed"
    assert not {"declared.horovod", "built.nccl", "collective.run", "gpu.run"} & set(said["checks"])


def test_the_bill_of_materials_has_it(said: dict[str, Any]) -> None:
    assert "pkg:pypi/demo@1.0" in said["sbom"]
    assert said["disagreement"] == ""


def test_its_rule_refuses_and_the_nearest_row_has_its_release(said: dict[str, Any]) -> None:
    assert said["refusal"] == ["demo", "demo 1.0 instead of 2.0"]


def test_the_documentation_has_it(said: dict[str, Any]) -> None:
    checks, rules, schema = said["docs"]
    assert "`demo.allreduce` | collective |" in checks and "`declared.demo` |" in checks
    assert "</a>demo | release | demo | it has one release |" in rules
    assert json.loads(schema)["$defs"]["RowFields"]["properties"]["demo"]["anyOf"][0]["examples"] == ["1.0"]


def test_the_table_cannot_be_extended_after_it_was_read() -> None:
    with pytest.raises(UsageError, match="was read before"):
        more.extend()
