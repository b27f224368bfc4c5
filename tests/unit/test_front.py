"""Options where people put them, --json everywhere, completion, and a start that imports little."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from command import call
from report_samples import built
from rich.console import Console
from rows import ROOT

from stackwright.cli import completion, front, main
from stackwright.records.history import show
from stackwright.records.report import table

NVIDIA = str(ROOT / "matrix.nvidia.yaml")
SHIPPED = str(ROOT / "matrix.yaml")
PASSED_ON = {"engine"}
"""Its words are for another program."""

WITHOUT_ANSWER = PASSED_ON | {"completion", "shards"}
"""`shards` alone is a group."""


def commands() -> dict[str, click.Command]:
    """Each command by its words, those of groups too."""
    found = {}
    for name, command in main.cli.every().items():
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": inner for below, inner in command.commands.items()}
    return found


def options(command: click.Command) -> set[str]:
    return {text for option in command.params for text in option.opts}


# -- options of the group ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--matrix", NVIDIA, "plan", "cuda11*"),
        ("plan", "--matrix", NVIDIA, "cuda11*"),
        ("plan", f"--matrix={NVIDIA}", "cuda11*"),
        ("plan", "cuda11*", "--matrix", NVIDIA),
        ("--matrix", NVIDIA, "plan", "cuda11*", "--matrix", NVIDIA),
    ],
    ids=["before", "after", "with =", "last", "twice the same"],
)
def test_the_matrix_is_named_before_or_after_the_command(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *words, "--json")
    assert (code, err) == (0, "")
    assert [row["id"] for row in json.loads(out)["rows"]] == ["cuda11-ubuntu"]


@pytest.mark.parametrize("place", [0, 1, 3])
def test_two_values_of_one_option_are_an_error(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--matrix", SHIPPED]
    words[place:place] = ["--matrix", NVIDIA]
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert "--matrix is given twice" in err
    assert SHIPPED in err and NVIDIA in err and "next: leave one out" in err


def test_every_command_takes_the_options_of_the_group() -> None:
    wanted = {*(f"--{name}" for name in front.PLACES), *front.VERBOSE}
    assert {name for name, command in commands().items() if not wanted <= options(command)} == PASSED_ON


def test_options_after_the_command_of_a_group_and_of_a_job(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = call(capsys, "history", "show", "--out", str(tmp_path))
    assert (code, str(tmp_path / "history.sqlite") in err) == (0, True)
    assert f"./build.py --out {tmp_path} report" in err, "the line to paste keeps it"
    job = ("python", "train.py", "--out", "runs", "-v", "--matrix", "none")
    code, out, _ = call(capsys, "launch", "cuda12-torch", "--docker", "--", *job)
    assert code == 0
    assert shlex.join(job) in " ".join(out.split())


# -- one document -----------------------------------------------------------------------------------


def test_every_command_with_an_answer_has_json_and_its_short_form() -> None:
    without = {name for name, command in commands().items() if not {"--json", "--format"} <= options(command)}
    assert without == WITHOUT_ANSWER


@pytest.mark.parametrize(
    "words",
    [
        ("plan",), ("explain",), ("history",), ("history", "show"), ("shards", "list"),
        ("launch", "cuda12-torch", "--slurm"), ("facts",), ("ci", "--check"),
    ],
)  # fmt: skip
def test_json_is_short_for_format_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    here = ("--out", str(tmp_path))
    code, short, _ = call(capsys, *words, "--json", *here)
    assert (code, call(capsys, *words, "--format", "json", *here)[1]) == (0, short)
    assert json.loads(short)


def test_json_and_another_form_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "plan", "--json", "--format", "text")
    assert (code, out, "exclude each other" in err) == (2, "", True)


# -- the list of commands ---------------------------------------------------------------------------


def test_the_list_of_commands_says_what_their_help_begins_with() -> None:
    for name, (_, text) in front.LATER.items():
        command = main.cli.get_command(None, name)
        assert command and " ".join((command.help or "").split()).startswith(text), name


@pytest.mark.parametrize("asked", [["--help"], ["plan", "--help"]], ids=" ".join)
def test_help_imports_no_stage_and_no_library_of_one(asked: list[str]) -> None:
    """What is imported for it costs everybody time at each start."""
    words = (
        "import sys; from stackwright.cli.main import main\n"
        f"try: main({asked})\n"
        "except SystemExit: print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"rich", "pydantic", "jinja2", "yaml", "requests", "docker", "packaging", "sqlite3"}
    assert heavy & set(done.stderr.split()) == set()
    ours = {name for name in done.stderr.split() if name.startswith("stackwright.")}
    assert {name.split(".")[1] for name in ours} == {"cli", "core", "host"}
    assert len(ours) < 25


# -- completion -------------------------------------------------------------------------------------


def complete(*words: str) -> list[str]:
    maker = ShellComplete(main.cli, {}, front.NAME, front.VARIABLE)
    return [get_completion.value for get_completion in maker.get_completions(list(words[:-1]), words[-1])]


def test_commands_options_and_rows_are_completed(tmp_path: Path) -> None:
    assert complete("pla") == ["plan"]
    assert complete("history", "mo") == ["morning"]
    assert complete("plan", "--wh") == ["--where"]
    assert complete("plan", "cuda13") == ["cuda13-torch", "cuda13-jax"]
    assert complete("--matrix", NVIDIA, "build", "cuda13") == ["cuda13-ubuntu"]
    assert complete("build", "--matrix", NVIDIA, "cuda13") == ["cuda13-ubuntu"]
    assert complete("plan", "--matrix", str(tmp_path / "none.yaml"), "cuda13") == []


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_gets_its_lines(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "completion", shell)
    assert (code, err) == (0, "")
    assert f"_BUILD_PY_COMPLETE={shell}_complete" in out.replace("env ", "")


def test_bash_asks_the_program(tmp_path: Path) -> None:
    """The function that the lines define, called as bash calls it."""
    lines = tmp_path / "lines"
    shown = subprocess.run([ROOT / "build.py", "completion", "bash"], capture_output=True, check=True)
    lines.write_bytes(shown.stdout)
    words = f'. {lines}; COMP_WORDS=({ROOT}/build.py pla); COMP_CWORD=1; _buildpy_completion "$COMP_WORDS"'
    asked = ["bash", "-c", f"{words}; echo ${{COMPREPLY[@]}}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("plan\n", "")


# -- narrow terminals -------------------------------------------------------------------------------

ROW = "cuda12-ubuntu-openmpi-five"
COLUMNS = 60


def printed(*tables: object) -> str:
    out = io.StringIO()
    for shown in tables:
        Console(file=out, width=COLUMNS).print(shown)
    return out.getvalue()


def test_60_columns_keep_the_name_of_the_row() -> None:
    line = show.Line(
        row=ROW, run="1", started="2026-03-02T02:00:00Z", state="passed", key="a1" * 32,
        tiers="docker 4, sif 4", image=5_860_000_000, sif=2_910_000_000, seconds=400.0, definition="",
    )  # fmt: skip
    text = printed(table.table([built(row=ROW)], ()), show.table([line]))
    assert sum(ROW in line for line in text.splitlines()) >= 2
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_60_columns_keep_the_names_in_a_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = (ROOT / "matrix.yaml").read_text().replace("cuda12-torch", ROW)
    (tmp_path / "matrix.yaml").write_text(row)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / f"{ROW}.txt").write_bytes((ROOT / "locks" / "cuda12-torch.txt").read_bytes())
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    code, out, _ = call(capsys, "plan", ROW, "--matrix", str(tmp_path / "matrix.yaml"))
    assert code == 0
    assert any(line.split()[:1] == [ROW] for line in out.splitlines())
    assert max(map(len, out.splitlines())) <= COLUMNS


def test_a_line_to_paste_has_the_options_of_its_own_command_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--out", str(tmp_path), "history"], ["plann"]):
        with pytest.raises(SystemExit):
            main.main(words)
    assert capsys.readouterr().err.endswith("next: ./build.py --help\n")
