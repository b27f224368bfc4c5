"""The definition file says what the Dockerfile says: the same steps, labels and lists, of one stack."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attack_facts import attack
from rows import ROOT, SOURCES, lock_with, stack

from stackwright.core.components.horovod.component import HOROVOD
from stackwright.core.facts import distributions
from stackwright.core.model import labels
from stackwright.core.model.row import Flavour, Stack
from stackwright.core.render import dockerfile
from stackwright.core.render.definition import definition_label, file_name, render_definition
from stackwright.host.project import Planned, Project, cells, plan

RECIPE = render_definition(stack(), SOURCES)
TEXT = RECIPE.text("cuda12-torch.def")
MATRICES = ("matrix.yaml", "matrix.nvidia.yaml", "matrix.arm.yaml")
PROJECTS = [Project(root=ROOT, matrix=ROOT / name, out=ROOT / "out") for name in MATRICES]
ROWS = [row for project in PROJECTS for row in plan(project, cells(project)).rows]
SECTION = re.compile(r"^%(\w+)(.*)$", re.MULTILINE)


def stages(text: str) -> dict[str, str]:
    parts = re.split(r"^(?=Bootstrap: )", text, flags=re.MULTILINE)[1:]
    return {re.findall(r"^Stage: (\S+)$", part, re.MULTILINE)[0]: part for part in parts}


def sections(part: str) -> dict[str, str]:
    """Text by section and its argument; two of one name are joined."""
    heads = list(SECTION.finditer(part))
    ends = [head.start() for head in heads[1:]] + [len(part)]
    found: dict[str, str] = {}
    for head, end in zip(heads, ends, strict=True):
        name = head[1] + head[2].rstrip()
        found[name] = found.get(name, "") + part[head.end() : end]
    return found


def test_plain_lines_become_the_body_of_a_run() -> None:
    """The golden Dockerfiles hold the steps in this form, and the golden definition files as they are."""
    lines = "one \\\n    two\nfor x in a; do\n    three\ndone"
    assert dockerfile.as_run(lines).splitlines() == [
        "    one \\", "        two; \\", "    for x in a; do \\", "        three; \\", "    done",
    ]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_the_labels_are_those_of_the_image(row: Planned) -> None:
    definition = render_definition(row.stack, SOURCES).text(file_name(row.stack))
    lines = sections(stages(definition)["final"])["labels"].split("\n\n")[0].strip().splitlines()
    found = dict(line.strip().split(" ", 1) for line in lines)
    text = row.recipe.text("Dockerfile")
    of_image = {name: a or b for name, a, b in re.findall(r"(org\.[\w.]+)=(?:\"(.*)\"|'(.*)')", text)}
    assert len(of_image) >= 6
    inherited = {
        labels.PROVIDER: row.stack.provider,
        labels.VERSION: dockerfile.render(row.stack, SOURCES).key[:12],
    }
    assert found == {**inherited, **of_image}
    assert not {*inherited, labels.KEY} & {*of_image}
    assert json.loads(found["org.stackwright.stack"]) == dockerfile.declared(row.stack)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_every_row_has_all_stages_and_sections(row: Planned) -> None:
    found = stages(render_definition(row.stack, SOURCES).text(file_name(row.stack)))
    cuda = ["cuda"] if row.stack.provider == "nvidia" else []
    made = ["compiled"] if row.stack.compiled else []
    assert list(found) == [*cuda, "frameworks", "horovod-wheel", *made, "final"]
    posts = [name for part in found.values() for name in sections(part) if name.startswith("post")]
    assert posts == ["post -c /bin/bash -euo pipefail"] * (3 + len(made))
    final = sections(found["final"])
    asked = {"environment", "labels", "runscript", "startscript", "test", "help", "files from frameworks"}
    assert asked <= set(final)
    for name in row.stack.modules:
        assert "train.py" in final[f"appfiles {name}"]
        assert f"/scif/apps/{name}/train.py" in final[f"apprun {name}"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_each_post_is_shell_and_each_file_is_there(row: Planned, tmp_path: Path) -> None:
    recipe = render_definition(row.stack, SOURCES)
    names = {name for name, _ in recipe.files}
    for part in stages(recipe.text(file_name(row.stack))).values():
        for name, text in sections(part).items():
            if name.split()[0] in ("post", "runscript", "startscript", "test", "apprun", "environment"):
                done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
                assert (done.returncode, done.stderr) == (0, ""), (name, text)
            if name.split()[0] in ("files", "appfiles") and " from " not in name:
                for line in re.findall(r"^    (\S+) \S+$", text, re.MULTILINE):
                    assert line in names or any(file.startswith(f"{line}/") for file in names), line


def test_the_image_keeps_its_key() -> None:
    assert (
        dockerfile.render(stack(), SOURCES).key
        == dockerfile.render(stack(), replace(SOURCES, companions=())).key
    )
    assert RECIPE.key != dockerfile.render(stack(), SOURCES).key
    assert render_definition(stack(), SOURCES) == RECIPE


def test_its_own_key_covers_the_probes() -> None:
    assert render_definition(stack(), replace(SOURCES, companions=SOURCES.companions[1:])).key != RECIPE.key


def test_the_toolchain_is_shipped_in_the_devel_flavour_only() -> None:
    def shipped(row: Stack) -> str:
        return stages(render_definition(row, SOURCES).text(file_name(row)))["final"]

    assert "nvidia-cuda-toolkit" not in shipped(stack())
    assert "nvidia-cuda-toolkit" in shipped(stack(flavour=Flavour.DEVEL))
    wheels = next(row.stack for row in ROWS if row.stack.lock.toolchain)
    assert "/opt/cuda" not in shipped(wheels)
    assert "    /opt/cuda\n" in shipped(replace(wheels, flavour=Flavour.DEVEL))
    ubuntu = next(row.stack for row in ROWS if row.stack.provider == "nvidia")
    assert "/usr/local/cuda" not in shipped(ubuntu)
    assert "    /usr/local/cuda\n" in shipped(replace(ubuntu, flavour=Flavour.DEVEL))
    assert "PATH=/opt/stack/bin:/usr/local/cuda/bin:$PATH" in shipped(replace(ubuntu, flavour=Flavour.DEVEL))


def test_nothing_that_is_not_shipped_lies_in_the_builders_own_tmp() -> None:
    assert not re.search(r"(?<!\w)/(var/)?tmp/", TEXT)


def test_no_address_no_library_path_and_every_download_by_hash() -> None:
    assert re.findall(r"https?://\S*", TEXT) == [HOROVOD.source]
    assert "LD_LIBRARY_PATH" not in TEXT
    installs = re.findall(r"pip (?:install|download)(?:[^\n]*\\\n)*[^\n]*", TEXT)
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


@pytest.mark.parametrize("value", ["a\nb", "a\rb", " a", "a ", "", "{{ BOOTSTRAP }}", "a\x00"])
def test_a_label_that_would_be_something_else_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="cannot be a label"):
        definition_label(value)


# -- what judges in %test ---------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "files": {"host_keys": []},
    "system": {
        "row": json.dumps(dockerfile.declared(stack())),
        "python_packages": {"torch": "2.6.0+cu124", "horovod": "0.28.1"},
    },
    "link": {"modules": {"torch": {"error": None}, "horovod.torch": {"error": None}}},
    "fabric": {
        "verbs": None, "providers": {"libmlx5-rdmav34.so": None},
        "ucx": {"modules": {"libuct_ib.so.0": None}},
    },
    "built-torch": {"mpi_built": 1, "nccl_built": 22105},
    "attack": attack(),
}  # fmt: skip


def judge(folder: Path, facts: dict[str, Any]) -> tuple[int, str]:
    for name, document in facts.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    argv = [sys.executable, str(ROOT / "singularity" / "judge.py"), str(folder), "torch"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_good_facts_pass(tmp_path: Path) -> None:
    assert judge(tmp_path, GOOD) == (0, "passed: files and versions, links, and torch\n")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("files", "host_keys"), ["/etc/ssh/ssh_host_rsa_key"], "host key"),
        (("system", "python_packages", "torch"), "2.5.1", "torch 2.6.0, and 2.5.1"),
        (("link", "modules", "horovod.torch", "error"), "no libmpi", "horovod.torch: no libmpi"),
        (("fabric", "verbs"), "no such file", "libibverbs.so.1 does not load: no such file"),
        (("fabric", "ucx", "modules", "libuct_ib.so.0"), "file too short", "libuct_ib.so.0 does not load"),
        (("built-torch", "nccl_built"), 0, "nccl_built is 0"),
        (("built-torch", "error"), "exit code 1", "exit code 1"),
        (("built-torch",), {}, "mpi_built is None"),
        (("attack", "jobs", "static", "attacks", "unsigned PUT"), 200, "static, unsigned PUT: answered 200"),
        (("attack", "servers", "elastic", "pickles", "signed", "executed"), True, "a pickle was executed"),
        (("attack", "services", "task"), {"error": "no port"}, "task: no port"),
    ],
)
def test_what_is_wrong_is_said_and_fails(
    path: tuple[str, ...], value: Any, said: str, tmp_path: Path
) -> None:
    facts = deepcopy(GOOD)
    place = facts
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    code, text = judge(tmp_path, facts)
    assert code == 1
    assert said in text


@pytest.mark.parametrize(
    ("package", "code"), [("mxnet-cu112", 0), ("mxnet", 0), ("mxnet-cu", 1), ("xmxnet-cu112", 1)]
)
def test_a_package_may_have_the_release_of_cuda_in_its_name(package: str, code: int, tmp_path: Path) -> None:
    facts = deepcopy(GOOD)
    row = json.loads(facts["system"]["row"])
    facts["system"]["row"] = json.dumps({**row, "frameworks": {**row["frameworks"], "mxnet": "1.9.1"}})
    facts["system"]["python_packages"][package] = "1.9.1"
    assert judge(tmp_path, facts)[0] == code


@pytest.mark.parametrize("name", GOOD)
def test_a_probe_that_left_nothing_fails(name: str, tmp_path: Path) -> None:
    code, text = judge(tmp_path, {key: value for key, value in GOOD.items() if key != name})
    assert code == 1
    assert text.startswith("failed: ")


def test_a_lock_reaches_it() -> None:
    other = render_definition(stack(lock=replace(lock_with(), text=lock_with().text + "x==1\n")), SOURCES)
    assert other.text("requirements.txt").endswith("x==1\n")
    assert distributions.known("debian-13").sources in TEXT
