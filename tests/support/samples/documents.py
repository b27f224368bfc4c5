"""The fenced blocks of the documents, and what is wrong with one: all that a reader may paste is judged.

A command of Stackwright is parsed by the command line itself, a matrix is checked against the rules, and the
settings of other programs against the schemas that these programs bring. What no test runs as it is written
is in OTHERS, with the reason.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import jsonschema
import kubernetes_schema
import yaml
from rows import ROOT

from stackwright.cli.main import cli
from stackwright.core.config.expand import expand
from stackwright.core.config.load import Beside, interpret
from stackwright.core.config.yaml_tree import LOADER
from stackwright.core.errors import StackwrightError
from stackwright.core.rules import table

OURS = ("./build.py", "build.py", "stackwright")
PYTHON = (".venv/bin/python", "python", "python3")
OTHERS = {
    "docker": "needs an engine and the images; tests/engine and tests/images start them",
    "apptainer": "needs a SIF; tests/hpc and tests/engine start them",
    "pip": "needs an index; tests/e2e/test_installed.py installs a wheel",
    "oras": "needs a registry; tests/engine/test_publish_signed.py asks one",
    "grype": "is not here, and the document says so",
    "jq": "its fields are compared with those of the record",
    "sqlite3": "its tables are compared with those of the history in tests/unit/test_history.py",
    "eval": "starts an engine; tests/e2e/as_user.sh does the same",
    "openssl": "makes a key; tests/engine/test_signed.py makes the same",
    "ssh-keygen": "makes a key; tests/e2e/test_two_nodes.py makes the same",
    **dict.fromkeys(("base64", "cd", "for", "done", "ls", "mkdir", "printf", "tail"), "the shell's own"),
}  # fmt: skip
"""Other programs in the documents, and why no test here runs them as they are written."""

NAME_ALONE = re.compile(r"Missing |Option .* requires an argument")
HOOK_KEYS = {"repo", "rev", "hooks"}
INSTRUCTIONS = {"FROM", "USER", "RUN", "COPY", "ENV", "WORKDIR", "ENTRYPOINT", "CMD", "LABEL", "ARG"}
BESIDE = Beside(
    text=lambda _: "einops\n",
    folder=lambda _: (("start", b"#!/bin/sh\n"),),
    wheels=lambda _: (),
)
PUBLISHED = """\
defaults:
  {provider: debian, os: debian-13, python: "3.13", horovod: "0.28.1", gpu_arch: ["9.0"], cuda: "13.2",
   torch: "2.15.0", mpi: {flavour: openmpi, version: "5.0"}}
include: [{id: cuda13-torch}, {id: cuda13-arm, platform: linux/arm64}]
"""
"""A matrix without settings for publishing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """``language`` is what stands behind the fence, ``line`` that of the fence."""

    path: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}"


def documents() -> list[Path]:
    """All but `docs/results`, which has what was measured and nothing to paste."""
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "results" not in path.parts]
    return [
        ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md")
    ] + pages


def blocks(path: str, text: str) -> Iterator[Block]:
    for match in re.finditer(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", text, re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(path=path, line=line, language=match[2].strip(), text=match[3])


def spans(path: str, text: str) -> Iterator[Block]:
    """Commands of Stackwright and of make inside a sentence, each as a block of one line."""
    prose = re.sub(r"^```.*?^```$", lambda found: "\n" * found[0].count("\n"), text, flags=re.M | re.S)
    for match in re.finditer(r"`((?:(?:\./)?build\.py|stackwright|make) [^`\n]*)`", prose):
        if "…" not in match[1] and "COMMAND" not in match[1]:
            line = prose.count("\n", 0, match.start()) + 1
            yield Block(path=path, line=line, language="span", text=match[1] + "\n")


def wrong(block: Block) -> list[str]:
    """Return why the block cannot be what a reader pastes: nothing where it can."""
    judge = JUDGES.get(block.language.lower())
    if judge is None:
        return [f"no test knows the language {block.language!r}: write one of {', '.join(JUDGES)}"]
    try:
        return list(judge(block.text))
    except (ValueError, SyntaxError, yaml.YAMLError, StackwrightError, jsonschema.ValidationError) as error:
        return [str(error).splitlines()[0]]


# -- shell -------------------------------------------------------------------------------------------


def commands(text: str) -> list[list[str]]:
    """Return the words of each simple command, without redirections and variables before it."""
    found: list[list[str]] = []
    for line in re.sub(r"(\\|(?<=\|))\n", " ", text).splitlines():
        lexer = shlex.shlex(re.sub(r"^(\S+ ){5} *(?=cd )", "", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word and set(word) <= set("();|&"):
                found += [words] if words else []
                words = []
            elif words or not re.match(r"\w+=|do$|export$", word):
                words.append(word)
    return [_without_redirections(words) for words in found]


def _without_redirections(words: Sequence[str]) -> list[str]:
    return [word for index, word in enumerate(words) if ">" not in (word, words[index - 1] if index else "")]


def _shell(text: str) -> Iterator[str]:
    for words in commands(text):
        yield from _command(words)


def _span(text: str) -> Iterator[str]:
    """A command in a sentence may be its name alone."""
    return (reason for reason in _shell(text) if not NAME_ALONE.match(reason))


def _command(words: Sequence[str]) -> Iterator[str]:
    program, rest = words[0], list(words[1:])
    if program in OURS:
        yield from parsed(rest)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        yield from (f"make has no target {word}" for word in rest if word not in targets)
    elif program in PYTHON:
        yield from _python_program(rest)
    elif "/" in program and not program.startswith("/"):
        yield from [] if (ROOT / program).is_file() else [f"there is no {program}"]
    elif program == "jq":
        yield from _fields_of_records(rest)
    elif Path(program).name not in OTHERS:
        yield f"no test runs {program}, and OTHERS does not say why"
    yield from _places(rest)


def parsed(arguments: Sequence[str]) -> Iterator[str]:
    """Parse as the command line does, without starting anything: yield what it refuses."""
    words = list(arguments)
    group: click.Command = cli
    context = click.Context(cli)
    try:
        while isinstance(group, click.Group):
            _, words, _ = group.make_parser(context).parse_args(words)
            if not words or words[0] in ("--help", "--version"):
                return
            name, command, words = group.resolve_command(context, words)
            assert command is not None
            group, context = command, click.Context(command, parent=context, info_name=name)
        group.make_context(context.info_name, words, parent=context.parent)
    except click.exceptions.Exit:
        pass  # --help
    except click.ClickException as error:
        yield error.format_message()
    except StackwrightError as error:
        yield str(error)


def _python_program(words: Sequence[str]) -> Iterator[str]:
    if words[:1] == ["-m"]:
        package, *inner = words[1].split(".")
        place = _package(package).joinpath(*inner)
        known = place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()
        yield from [] if known else [f"there is no module {words[1]}"]
    elif "/" in words[0] and not words[0].startswith("/"):
        yield from [] if (ROOT / words[0]).is_file() else [f"there is no {words[0]}"]


def _places(words: Sequence[str]) -> Iterator[str]:
    """Images and files that the project has itself."""
    rows = {cell["id"] for cell in yaml.safe_load((ROOT / "matrix.yaml").read_text())["include"]}
    for word in words:
        for row in re.findall(r"^stackwright/([\w.-]+):KEY", word):
            yield from [] if row in rows else [f"no row is called {row}"]
        for name in re.findall(r"^(?:\./|/)?((?:examples|bench|probes|scripts)/[\w./-]+)", word):
            yield from [] if (ROOT / name).exists() else [f"there is no {name}"]


def _fields_of_records(words: Sequence[str]) -> Iterator[str]:
    known = set(re.findall(r'"(\w+)":', (ROOT / "docs" / "record.schema.json").read_text()))
    known |= {"key", "value", "torch", "predicate", "payload"}  # of jq, of `found`, and of a signed statement
    known |= {"manifests", "annotations", "digest"}  # of an index in a registry
    for program in (word for word in words if "." in word and not word.startswith(("$", "out/"))):
        text = re.sub(r'"[^"]*"', "", program)
        names = re.findall(r"(?<![\w)])\.([a-z_]\w*)", text) if not program.endswith(".json") else []
        yield from (f"a record has no {name!r}" for name in names if name not in known)


# -- other languages -----------------------------------------------------------------------------------


def _text(text: str) -> Iterator[str]:
    """Output, in which a line may be a command: of a crontab, say."""
    for line in text.splitlines():
        found = re.search(r"(?<![\w:`-] )(?<!next: )\./build\.py .*", line)
        yield from _shell(found[0]) if found else ()


def _yaml(text: str) -> Iterator[str]:
    document = yaml.safe_load(text)
    keys = set(map(str, document)) if isinstance(document, dict) else {text.splitlines()[0]}
    if keys & {"include", "axes"}:
        yield from _matrix(text)
    elif keys == {"publish"}:
        yield from _matrix(PUBLISHED + text)
    elif keys == {"jobqueue"}:
        known = _of("dask_jobqueue", "jobqueue.yaml")["jobqueue"]["slurm"]
        yield from (
            f"dask-jobqueue has no {key!r}" for key in document["jobqueue"]["slurm"] if key not in known
        )
    elif keys == {"distributed"}:
        jsonschema.validate(document, _of("distributed", "distributed-schema.yaml"))
    elif "jobs" in keys:
        workflow = {
            "on" if key is True else key: value for key, value in document.items()
        }  # YAML's own truth
        jsonschema.validate(workflow, _of("check_jsonschema", "builtin_schemas/vendor/github-workflows.json"))
    elif document.get("kind") == "Job" if isinstance(document, dict) else False:
        jsonschema.validate(document["spec"]["template"], kubernetes_schema.pod())
    elif keys == {"repos"}:
        yield from (f"pre-commit needs {HOOK_KEYS}" for repo in document["repos"] if set(repo) != HOOK_KEYS)
    elif keys <= set(json.loads((ROOT / "docs" / "site.schema.json").read_text())["properties"]):
        jsonschema.validate(document, json.loads((ROOT / "docs" / "site.schema.json").read_text()))
    else:
        yield f"no test knows what reads the keys {', '.join(sorted(keys))}"


def _package(name: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ValueError(f"there is no package {name}")
    return Path(found.origin).parent


@cache
def _of(package: str, name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load((_package(package) / name).read_text(), LOADER)
    return document


def _matrix(text: str) -> Iterator[str]:
    """Every row must be one that `plan` takes, once it has a lock."""
    for cell in expand(interpret(text, "matrix.yaml", beside=BESIDE)):
        found = table.first_clash(cell) or table.first_unknown(cell)
        if found:
            yield f"{cell.id}: {found[0].name}: {found[1].reason}"


def _python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            names = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            yield from (
                f"{node.module} has no {name}"
                for name in names
                if not importlib.util.find_spec(f"{node.module}.{name}")
            )


def _json(text: str) -> Iterator[str]:
    json.loads(text)
    return iter(())


def _dockerfile(text: str) -> Iterator[str]:
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.startswith("#"):
            yield from _text(line)
        elif line and line.split()[0] not in INSTRUCTIONS:
            yield f"{line.split()[0]} is no instruction"


JUDGES = {
    "sh": _shell,
    "span": _span,
    "yaml": _yaml,
    "text": _text,
    "python": _python,
    "dockerfile": _dockerfile,
    "json": _json,
}
