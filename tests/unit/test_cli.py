"""What a person gets: an exit code, one message without a traceback, JSON alone on stdout."""

from __future__ import annotations

import json
import os
import shutil
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest
from command import call
from rows import ROOT

from stackwright.cli import main
from stackwright.host.project import VARIABLE, places
from stackwright.host.upstream.mirror import dead_proxy


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """A copy of the shipped matrix with its locks, to be changed."""
    shutil.copy(ROOT / "matrix.yaml", tmp_path)
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    return tmp_path / "matrix.yaml"


def change(path: Path, old: str, new: str) -> str:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return str(path)


def test_plan_as_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "plan", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["rows"][0]["stack"]["nccl"] == "2.21.5"
    assert document["rejections"] == []


def test_plan_shows_what_was_left_out_and_found(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "plan")
    assert "NCCL 2.21.5" in " ".join(out.split())


def test_a_row_that_cannot_work_is_listed_with_rule_clash_source_and_nearest(
    capsys: pytest.CaptureFixture[str], matrix: Path
) -> None:
    path = change(matrix, 'gcc: "13"', 'gcc: "14"')
    code, out, _ = call(capsys, "--matrix", path, "plan", "--json")
    rejection = json.loads(out)["rejections"][0]
    assert code == 0
    assert rejection["rule"] == "cuda-gcc"
    assert rejection["clash"] == [{"field": "cuda", "value": "12.4"}, {"field": "gcc", "value": "14"}]
    assert rejection["source"].startswith("nvidia-cuda-nvcc-cu12 12.4")
    assert rejection["nearest"] == "gcc 13 instead of 14"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_plan_fails_where_no_selected_row_is_left(
    capsys: pytest.CaptureFixture[str], matrix: Path, words: tuple[str, ...]
) -> None:
    path = change(matrix, 'gcc: "13"', 'gcc: "14"')
    code, out, err = call(capsys, "--matrix", path, "plan", "cuda12-torch", *words)
    assert code == 5
    assert "cuda-gcc" in out
    assert "error: cuda12-torch (line 14 of the matrix): the rule cuda-gcc refuses it" in err
    assert f"next: ./build.py --matrix {path} explain cuda12-torch" in err
    (matrix.parent / "locks" / "cuda13-torch.txt").unlink()
    code, _, err = call(capsys, "--matrix", path, "plan", "cuda13-torch", *words)
    assert code == 4
    assert f"next: run ./build.py --matrix {path} lock cuda13-torch" in err


def test_plan_strict_fails_on_it(capsys: pytest.CaptureFixture[str], matrix: Path) -> None:
    code, _, err = call(capsys, "--matrix", change(matrix, 'gcc: "13"', 'gcc: "14"'), "plan", "--strict")
    assert code == 5
    assert "Traceback" not in err


def test_a_row_without_a_lock_says_how_to_get_one(capsys: pytest.CaptureFixture[str], matrix: Path) -> None:
    (matrix.parent / "locks" / "cuda12-torch.txt").unlink()
    to = str(matrix.parent / "contexts")
    code, _, err = call(capsys, "--matrix", str(matrix), "render", "cuda12-torch", "--to", to)
    assert code == 4
    assert f"next: run ./build.py --matrix {matrix} lock cuda12-torch" in err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('python: "3.13"', "python: 3.10", '"3.10"'),
        ('gcc: "13"', "gc: '13'", "gcc"),
        ('torch: "2.6.0"', 'torch: "2.6.0; touch x"', "touch x"),
        ('torch: "2.6.0"', 'torch: "$(id)"', "$(id)"),
        ('torch: "2.6.0"', 'torch: "`id`"', "`id`"),
        ('torch: "2.6.0"', 'torch: "2.6.0\\n"', "2.6.0"),
    ],
)
def test_wrong_input_is_one_message_with_its_place(
    capsys: pytest.CaptureFixture[str], matrix: Path, old: str, new: str, message: str
) -> None:
    code, out, err = call(capsys, "--matrix", change(matrix, old, new), "plan", "--json")
    assert (code, out) == (3, "")
    assert message in err
    assert f"{matrix}:" in err
    assert "Traceback" not in err


def test_no_row_by_that_name_suggests_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "plan", "cuda12-troch")
    assert code == 2
    assert "cuda12-torch" in err


@pytest.mark.parametrize("command", ["sif", "run"])
@pytest.mark.parametrize("how", ["zstd:99", "xz", "zstd:3 -p 'x f 644 0 0 id'", ""])
def test_a_compression_is_checked_before_anything_is_asked(
    command: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, command, "cuda12-torch", "--sif-compression", how)
    assert (code, out) == (2, "")
    assert "no such compression" in err
    assert "zstd:LEVEL (1 to 22)" in err


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "plann")
    assert code == 2
    assert "plan" in err


@pytest.mark.parametrize("own", ["", "timeout:7"], ids=["nobody's", "a person's"])
def test_a_lost_question_for_a_name_is_asked_again_after_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.setenv("RES_OPTIONS", own)
    if not own:
        monkeypatch.delenv("RES_OPTIONS")
    call(capsys, "plan")
    assert os.environ["RES_OPTIONS"] == (own or "timeout:1 attempts:5")


def test_render_writes_what_plan_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, _ = call(capsys, "render", "--to", str(tmp_path))
    assert code == 0
    assert (tmp_path / "cuda12-torch" / "Dockerfile").is_file()
    assert json.loads((tmp_path / "docker-bake.json").read_text())["target"].keys() >= {"cuda12-torch"}


def test_every_command_has_an_example_in_its_help() -> None:
    assert main.cli.every()
    for name, command in main.cli.every().items():
        assert command.epilog, name
        assert f"./build.py {name}" in command.epilog
        assert command.help or command.callback.__doc__, name


@pytest.mark.parametrize("option", [("--jobs", "2"), ("--gpu",)])
def test_what_a_definition_file_has_no_use_for_is_refused(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "sif", "cuda12-torch", "--from", "def", *option)
    assert (code, out) == (2, "")
    assert err.startswith("error: --from def ")
    assert f"leave out {option[0]}" in err


NVIDIA = ("--matrix", str(ROOT / "matrix.nvidia.yaml"))


def test_allow_names_a_rule_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = call(capsys, "plan", "--allow", "cuda-arc")
    assert (code, "did you mean 'cuda-arch'?" in said) == (2, True)


def test_a_documented_refusal_is_passed_over_by_allow_and_a_read_one_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = (*NVIDIA, "explain", "cuda11-ubuntu", "--set", "cudnn=9.1", "--format", "json")
    code, out, _ = call(capsys, *asked)
    refused = json.loads(out)
    assert (code, refused["cause"], refused["rules"][0]["how"]) == (5, "cudnn", "documented")
    code, out, _ = call(capsys, *asked, "--allow", "cudnn", "--allow", "declared")
    (rule,) = (rule for rule in json.loads(out)["rules"] if rule["rule"] == "cudnn")
    assert (code, rule["said"]) == (0, "is allowed")
    code, out, _ = call(capsys, "explain", "cuda12-torch", "--set", "gcc=14", "--allow", "cuda-gcc")
    assert (code, "this is final" in out) == (5, True)


def test_a_plan_shows_what_nobody_checked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, *NVIDIA, "plan", "cuda13-ubuntu", "--json")
    (row,) = json.loads(out)["rows"]
    assert (code, [(notice["rule"], notice["how"]) for notice in row["notices"]]) == (
        0,
        [("nvidia-image", "unchecked")],
    )
    assert "warning: nvidia-image: it is not checked" in call(capsys, *NVIDIA, "plan", "cuda13-ubuntu")[1]


def test_the_matrix_is_named_or_in_the_folder_or_the_checkout_s(tmp_path: Path) -> None:
    checkout = places(None, None, {}, tmp_path)
    assert (checkout.matrix, checkout.out) == (ROOT / "matrix.yaml", ROOT / "out")
    (tmp_path / "matrix.yaml").touch()
    here = places(None, None, {}, tmp_path)
    assert (here.matrix, here.out) == (tmp_path / "matrix.yaml", tmp_path / "out")
    said = places(None, None, {VARIABLE: "/elsewhere/rows.yaml"}, tmp_path)
    assert (said.matrix, said.out) == (Path("/elsewhere/rows.yaml"), ROOT / "out")
    named = places(Path("mine.yaml"), Path("made"), {VARIABLE: "/elsewhere/rows.yaml"}, tmp_path)
    assert (named.matrix, named.out) == (Path("mine.yaml"), Path("made"))


def test_a_line_to_paste_keeps_the_matrix(capsys: pytest.CaptureFixture[str], matrix: Path) -> None:
    path = change(matrix, 'cuda: "13.2"', 'cuda: "11.2"')
    _, out, err = call(capsys, "--matrix", path, "plan", "cuda13-torch")
    assert f"./build.py --matrix {path} explain cuda13-torch" in " ".join((out + err).split())


def test_without_a_command_it_says_where_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys)
    assert (code, err) == (0, "")
    assert "./build.py plan " in out
    assert len(out.splitlines()) < 12


def test_a_proxy_that_does_not_answer_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:secret@proxy.example:3128")
    monkeypatch.setenv("no_proxy", "near.example")
    refused = URLError(ConnectionRefusedError(111, "Connection refused"))
    assert dead_proxy("http://mirror.example/debian", refused) == "proxy.example:3128"
    assert dead_proxy("http://near.example/debian", refused) == ""
    assert dead_proxy("http://mirror.example/debian", HTTPError("", 404, "", Message(), None)) == ""
