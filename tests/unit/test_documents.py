"""Everything in the documents that a reader may paste works: it is parsed, planned, or run as it is written.

tests/e2e/test_examples.py runs the commands of the README that need an engine, in a project that `make run`
left.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import call
from documents import OTHERS, Block, blocks, commands, documents, parsed, spans, wrong
from rows import ROOT

TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in documents()}
BLOCKS = [block for path, text in TEXTS.items() for block in blocks(path, text)]
SPANS = [block for path, text in TEXTS.items() for block in spans(path, text)]

QUICK = {"plan": (0,), "explain": (0, 5), "launch": (0,), "render": (0, 5), "facts": (0,)}
"""Commands that are run here as they are written, and the exit codes that the documents name for them."""
NOT_QUICK = {"--all", "--update", "--check", "--github", "--gitlab", "--tool", "ROW"}
"""Not run here: what takes seconds, asks a network, writes files of the project, or has a placeholder."""


def quick() -> set[tuple[str, ...]]:
    shell = [block for block in BLOCKS + SPANS if block.language in {"sh", "span"}]
    lines = {tuple(words) for block in shell for words in commands(block.text)}
    ours = {words[1:] for words in lines if words[0].endswith("build.py") and not set(words) & NOT_QUICK}
    return {words for words in ours if set(words) & set(QUICK) and not any(parsed(words))}


QUICK_LINES = sorted(quick())


@pytest.mark.parametrize("path", TEXTS)
def test_each_block_can_be_pasted(path: str) -> None:
    found = {block.name: wrong(block) for block in BLOCKS + SPANS if block.path == path}
    assert {name: reasons for name, reasons in found.items() if reasons} == {}


def test_every_fence_is_read() -> None:
    """A fence that is not closed, or is indented, would hide a block from these tests."""
    fences = {path: text.count("```") for path, text in TEXTS.items()}
    read = {path: 2 * sum(block.path == path for block in BLOCKS) for path in TEXTS}
    assert fences == read


@pytest.mark.parametrize("words", QUICK_LINES, ids=" ".join)
def test_a_quick_command_runs(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(ROOT)
    name = next(word for word in words if word in QUICK)
    code, out, err = call(capsys, "--out", str(tmp_path / "out"), *words)
    assert code in QUICK[name], err
    assert out or err


def test_there_are_quick_commands_of_each_kind() -> None:
    assert {word for words in QUICK_LINES for word in words} >= set(QUICK)


def test_no_other_program_is_excused_for_nothing() -> None:
    used = {
        Path(words[0]).name for block in BLOCKS if block.language == "sh" for words in commands(block.text)
    }
    assert set(OTHERS) - used == set()


MATRIX = '{id: one, provider: debian, os: debian-13, python: "%s", horovod: "0.28.1", torch: "2.6.0",'
MATRIX += ' gpu_arch: ["8.0"], mpi: {flavour: openmpi, version: "5.0"}}'


@pytest.mark.parametrize(
    ("language", "text", "reason"),
    [
        ("", "./build.py plan\n", "no test knows the language ''"),
        ("console", "$ ./build.py plan\n", "no test knows the language 'console'"),
        ("sh", "./build.py plann\n", "No such command 'plann'"),
        ("sh", "make env && ./build.py plan --every\n", "No such option"),
        ("sh", "./build.py run --jobs many\n", "Invalid value for '--jobs'"),
        ("sh", "./build.py launch\n", "Missing argument 'ROW'."),
        ("sh", "make everything\n", "make has no target everything"),
        ("sh", "podman pull x\n", "no test runs podman, and OTHERS does not say why"),
        ("sh", ".venv/bin/python bench/none.py\n", "there is no bench/none.py"),
        ("sh", ".venv/bin/python -m stackwright.none\n", "there is no module stackwright.none"),
        ("sh", "docker run stackwright/cuda99:KEY python train.py\n", "no row is called cuda99"),
        ("sh", "jq -r '.verdict[]' \"$record\"\n", "a record has no 'verdict'"),
        ("sh", "./build.py plan 'cuda12\n", "No closing quotation"),
        ("text", "0 3 * * *  cd /srv && ./build.py nightly --publishh > out/night.txt\n", "No such option"),
        ("yaml", f"include: [{MATRIX % '3.12'}]\n", "one: "),
        ("yaml", f"include: [{MATRIX % '3.13'}]\nselekt: []\n", "matrix.yaml:2:1: unknown key 'selekt'"),
        ("yaml", "publish: {tag: []}\n", "matrix.yaml:5:11: unknown key 'tag'"),
        ("yaml", "jobqueue: {slurm: {que: build}}\n", "dask-jobqueue has no 'que'"),
        ("yaml", "distributed: {comm: {tls: 1}}\n", "1 is not of type 'object'"),
        ("yaml", "registry: {adress: x}\n", "Additional properties are not allowed"),
        ("yaml", "on: push\njobs: {one: {runs-on: x, steps: []}}\n", "[] should be non-empty"),
        ("yaml", "- uses: x\n", "no test knows what reads the keys - uses: x"),
        ("yaml", "repos: [{repo: x, hooks: []}]\n", "pre-commit needs "),
        ("json", "{a: 1}\n", "Expecting property name"),
        ("yaml", "services: {}\n", "no test knows what reads the keys services"),
        ("python", "from stackwright.probe import nothing_of_that_name\n", "stackwright.probe has no "),
        ("dockerfile", "FORM x\n", "FORM is no instruction"),
    ],
)  # fmt: skip
def test_a_block_that_cannot_be_pasted_is_found(language: str, text: str, reason: str) -> None:
    found = wrong(Block(path="a.md", line=1, language=language, text=text))
    assert found
    assert found[0].startswith(reason)


def slugs(text: str) -> set[str]:
    """Return the anchors of a page, as GitHub and the site make them of its headings."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def dead(path: Path, text: str) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading of it; `make docs` asks Sphinx."""
    found = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        known = target.exists() and (not anchor or anchor in slugs(target.read_text()))
        found += [] if known else [link]
    return found


@pytest.mark.parametrize("path", TEXTS)
def test_no_link_inside_the_documents_is_dead(path: str) -> None:
    assert dead(ROOT / path, TEXTS[path]) == []


def test_a_dead_link_is_found() -> None:
    text = "[a](none.md) [b](docs/cli.md#none) [c](docs/cli.md#exit-codes) [d](#commands) [e](#none)"
    assert dead(ROOT / "README.md", text) == ["none.md", "docs/cli.md#none", "#none"]
