"""What pydantic found in a matrix, in the user's words: the place, the cause, and the nearest right value."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import get_args, get_type_hints

from pydantic import ValidationError

from stackwright.core.components.table import MODULES
from stackwright.core.config import additions, own, schema, unsupported
from stackwright.core.config.notation import publishing
from stackwright.core.config.notation.text import MAX_PATTERNS
from stackwright.core.config.yaml_tree import Mapping, Node, Scalar, at, short, wrong
from stackwright.core.errors import MatrixError
from stackwright.core.model.matrix import Mark
from stackwright.core.model.target import PLATFORMS

TOP = tuple(get_type_hints(schema.MatrixFile))
FIELDS = tuple(get_type_hints(schema.RowFields))
CLOSED = {
    "mpi": tuple(get_type_hints(schema.MpiFields)),
    "publish": tuple(get_type_hints(publishing.PublishFields)),
    "pip": ("name", *schema.OF_PIP.keys() - {"pip"}, "index"),
    "compile": ("name", "import", "env", "needs"),
    "files": ("from", "to"),
    "platforms": tuple(get_type_hints(publishing.PlatformTagFields)),
}
"""Mappings with keys of their own."""

CHOICES = {
    "platform": tuple(PLATFORMS),
    "provider": get_args(get_type_hints(schema.RowFields)["provider"]),
    "os": get_args(get_type_hints(schema.RowFields)["os"]),
    "flavour": get_args(get_type_hints(schema.RowFields)["flavour"]),
    "mpi.flavour": get_args(get_type_hints(schema.MpiFields)["flavour"]),
    "require": get_args(publishing.RequiredTier),
    "pip.index": ("extra",),
}
"""The closed sets. Keys inside ``mpi``, ``pip`` and ``compile`` are written with a dot here and below."""

NOTATIONS = {
    **{("mpi.version" if name == "version" else name): found for name, found in schema.NOTATIONS.items()},
    **publishing.TEMPLATES,
    **publishing.OF_PLATFORMS,
    "pip": schema.OF_PIP["pip"],
    **{f"pip.{name}": found for name, found in schema.OF_PIP.items()},
    "pip.name": schema.OF_PIP["pip"],
    **schema.OF_IMAGE,
    "compile": schema.OF_COMPILE["name"],
    **{f"compile.{name}": found for name, found in schema.OF_COMPILE.items()},
}

FIRST = MODULES[0].name
HOW = {
    **{name: f'"{notation.example}"' for name, notation in NOTATIONS.items()},
    **{name: choices[0] for name, choices in CHOICES.items()},
    "defaults": '{python: "3.13"}',
    "axes": f'{{{FIRST}: ["2.6.0", "2.8.0"]}}',
    "include": f'[{{id: {schema.EXAMPLE}, {FIRST}: "2.6.0"}}]',
    "exclude": f'[{{{FIRST}: "2.6.0", python: "3.13"}}]',
    "select": f"[{schema.EXAMPLE}]",
    "mpi": '{flavour: openmpi, version: "5.0"}',
    "gpu_arch": '["8.0", "9.0"]',
    "fabric": "[verbs, ofi]",
    "benchmarks": "[nccl-tests]",
    "test_on_gpu": "true",
    **dict.fromkeys(schema.PARTS, "true"),
    "pip": '["transformers>=4.45", einops]',
    "pip.extras": "[train]",
    "apt": "[git]",
    "env": "{HF_HOME: /data/cache}",
    "build-env": '{MAX_JOBS: "2"}',
    "files": "[{from: ours, to: /opt/ours}]",
    "ports": '["8888"]',
    "entrypoint": "[/opt/ours/start]",
    "wheels": "dist",
    "user": '"20001:20001"',
    "compile": "[flash-attn]",
    "compile.env": '{FORCE_CUDA: "1"}',
    "compile.name": "flash-attn",
    "compile.needs": "[packaging]",
    "publish": '{moving: ["{row}"]}',
    "require": "[static, link, built, collective]",
    "tags": '["{row}-{date}"]',
    "moving": '["{row}"]',
    "platforms": f"[{{tag: cuda12, rows: [{schema.EXAMPLE}, cuda12-arm]}}]",
    "platforms.rows": f"[{schema.EXAMPLE}, cuda12-arm]",
}
"""How the value of each key is written."""

EXPECTED = {
    "string_type": "a string",
    "literal_error": "a string",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
}
"""What was asked for, by pydantic's type of problem."""

MOST = {
    **dict.fromkeys(("select", "platforms"), MAX_PATTERNS),
    "platforms.rows": len(PLATFORMS),
    "fabric": 2,
    "benchmarks": 1,
    "pip": additions.MOST,
    **dict.fromkeys(("compile", "compile.needs"), additions.MOST_COMPILED),
    **dict.fromkeys((*schema.OF_ROWS_IMAGE, "pip.extras"), own.MOST),
}
HOW_MANY = {
    "select": "one glob takes many rows: '*cuda12*'",
    "platforms": "give the others tags of their own",
    "platforms.rows": f"name one row for each platform: {', '.join(PLATFORMS)}",
    "fabric": "there are two: [verbs, ofi]",
    "benchmarks": "there is one: [nccl-tests]",
    **dict.fromkeys(("compile", "compile.needs"), "let pip take the wheels that an index has"),
    **dict.fromkeys(("pip", "apt", "pip.extras"), "name what brings the others along"),
    "build-env": "write what is of one source into its env of compile",
    **dict.fromkeys(("env", "files", "ports", "entrypoint"), "put them into a script that is copied in"),
}
"""Of lists that have a limit."""

Loc = tuple[int | str, ...]


def explain(error: ValidationError, root: Node, path: str) -> MatrixError:
    """Return the problem that stands first in the file. What is missing comes last: a key that was
    misspelt is both unknown and missing, and a list whose first entry is wrong counts as too short."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    placed = [
        (place(problem["type"], loc, root), problem["type"], loc)
        for problem in found
        for loc in (tuple(step for step in problem["loc"] if step not in schema.KINDS),)
    ]
    mark, kind, loc = min(
        placed,
        key=lambda problem: (problem[1] in {"missing", "too_short"}, problem[0].line, problem[0].column),
    )
    _, node = at(root, loc)
    cause, hint = _words(kind, loc, node)
    return wrong(path, mark, cause, hint)


def near(word: str, known: Iterable[str]) -> str:
    """Return a question with the nearest of ``known``, or nothing.

    difflib takes 20 µs a word: there is a limit.
    """
    found = get_close_matches(word[:64], list(islice(known, 10_000)), n=1)
    return f"did you mean {found[0]!r}?" if found else ""


def place(kind: str, loc: Loc, root: Node) -> Mark:
    if kind == "extra_forbidden":
        _, parent = at(root, loc[:-1])
        assert isinstance(parent, Mapping)
        return parent.entries[str(loc[-1])][0].mark
    return at(root, loc)[0]


NESTED = (["mpi"], ["pip"], ["compile"], ["files"], ["platforms"])
"""Whose keys are written with a dot."""


def _words(kind: str, loc: Loc, node: Node) -> tuple[str, str]:
    keys = [step for step in loc if isinstance(step, str)]
    key = ".".join(keys[-2:]) if keys[-2:-1] in NESTED else keys[-1] if keys else ""
    if keys[-3:-1] == ["compile", "env"]:
        return _wrong_setting(keys[-1], node)
    if keys[-2:-1] in (["env"], ["build-env"]) or kind == "credential":
        return _of_variable(kind, keys, node)
    return _of_key(kind, key, keys, loc, node)


def _of_key(kind: str, key: str, keys: list[str], loc: Loc, node: Node) -> tuple[str, str]:
    if kind == "extra_forbidden":
        return _unknown_key(keys[-1], keys[:-1])
    if isinstance(node, Scalar) and node.kind == "string" and kind in {"notation", "literal_error"}:
        return _wrong_value(key, node.text)
    return _of_list(kind, key, loc, node)


def _of_list(kind: str, key: str, loc: Loc, node: Node) -> tuple[str, str]:
    if kind == "missing":
        return f"{key!r} is missing here", f"add {key.rpartition('.')[2]}: {HOW[key]}"
    if kind == "too_short":
        return f"{key!r} is an empty list", f"give at least one value, or leave {key!r} out"
    if kind == "too_long":
        return f"{key!r} has more than {MOST[key]} entries", HOW_MANY[key]
    return _wrong_type(kind, key, loc, node)


def _of_variable(kind: str, keys: list[str], node: Node) -> tuple[str, str]:
    """Return what is wrong with a variable. Its value may be a secret, and is not shown."""
    if kind == "credential" and isinstance(node, Mapping):
        texts = {name: value.text for name, (_, value) in node.entries.items() if isinstance(value, Scalar)}
        cause = f"{keys[-1]!r}: the value of {own.telling(texts.items())} has the shape of a credential"
        return cause, "everyone who has the image could read it: give it to the job, and not to the image"
    name = keys[-1]
    if not schema.VARIABLES[keys[-2]].accepts(name):
        return f"{short(name)} is not the name of a variable", f"write {keys[-2]}: {HOW[keys[-2]]}"
    if kind == "string_type":
        seen = f"of the kind {node.kind}" if isinstance(node, Scalar) else _seen(node)
        return f"the value of {name} must be a string, and is {seen}", "write it in quotes"
    return f"the value of {name} has a character that is not written into an image, or is too long", (
        "letters, digits, blanks and %+,-./:=@_ are; a script that is copied in can set others"
    )


def _wrong_setting(name: str, node: Node) -> tuple[str, str]:
    """A variable of a build, or its value: both are strings of their own notation."""
    variable, value = schema.OF_COMPILE["variable"], schema.OF_COMPILE["env"]
    if not variable.accepts(name):
        return f"{short(name)} is not a variable of a build", f"write it as in {variable.example}"
    if isinstance(node, Scalar) and node.kind == "string":
        return f"{short(node.text)} is not a value for a variable", f'write it as in "{value.example}"'
    return f"{short(name)} must be a string, not {_seen(node)}", f'write it as in "{value.example}"'


OTHER_NOTATION = (
    "pip.import", "pip.requirements", "pip.pyproject", "pip.extras", "pip.index", "compile.import",
)  # fmt: skip
"""Keys of a mapping that are no requirements."""


def _wrong_value(key: str, text: str) -> tuple[str, str]:
    field = key if key in schema.OF_IMAGE else key.split(".")[0]
    entry = None if key in OTHER_NOTATION else unsupported.value(field, text)
    if entry:
        return f"{short(text)} is not supported for {key!r}: {entry.why}", entry.instead
    return f"{short(text)} is not a value for {key!r}", _right_value(key, text)


def _unknown_key(key: str, parents: list[str]) -> tuple[str, str]:
    cause = f"unknown key {short(key)}"
    if key == "<<":
        return "merge keys ('<<') are not supported", "write values that rows share under 'defaults'"
    if not parents:
        if key in FIELDS:
            return f"{cause} at the top", f"put it under 'defaults', as in defaults: {{{key}: {HOW[key]}}}"
        return cause, near(key, TOP) or f"the keys at the top are {', '.join(TOP)}"
    if parents[-1] in CLOSED:
        inside = CLOSED[parents[-1]]
        return f"{cause} in {parents[-1]!r}", near(key, inside) or f"write {parents[-1]}: {HOW[parents[-1]]}"
    return _unknown_field(key, parents, cause)


def _unknown_field(key: str, parents: list[str], cause: str) -> tuple[str, str]:
    if key == "id":
        return f"{cause} in {parents[0]!r}", "only rows of 'include' have an id"
    entry = unsupported.name(key)
    if entry:
        return f"there is no field {short(key)}: {entry.why}", entry.instead
    known = (*FIELDS, "id") if parents[0] == "include" else FIELDS
    return f"{cause} in {parents[0]!r}", near(key, known) or f"the fields are {', '.join(known)}"


def _wrong_type(kind: str, key: str, loc: Loc, node: Node) -> tuple[str, str]:
    if not key:
        return f"a matrix is a mapping, not {_seen(node)}", f"its keys are {', '.join(TOP)}"
    where = f"an entry of {key!r}" if isinstance(loc[-1], int) else repr(key)
    return f"{where} must be {EXPECTED[kind]}, not {_seen(node)}", _right_type(kind, key, loc, node)


def _seen(node: Node) -> str:
    if isinstance(node, Scalar):
        quoted = short(node.text) if node.kind == "string" else node.text
        return "empty" if node.kind == "null" else f"the {node.kind} {quoted}"
    return "a mapping" if isinstance(node, Mapping) else "a list"


def _right_type(kind: str, key: str, loc: Loc, node: Node) -> str:
    """YAML reads ``3.10`` without quotes as the number 3.1: the hint shows it as it was written."""
    if kind == "string_type":
        notation = NOTATIONS[key]
        if isinstance(node, Scalar) and notation.accepts(node.text):
            return f'write "{node.text}" in quotes'
        return f'write a string, as in "{notation.example}"'
    if kind == "literal_error":
        return f"write one of {', '.join(CHOICES[key])}"
    name = key.rpartition(".")[2]
    if len(loc) > 1 and loc[0] == "axes":
        return f"write {name}: [{HOW[key]}]"
    return f"write {name}: {HOW[key]}"


def _right_value(key: str, text: str) -> str:
    if key in CHOICES:
        return near(text, CHOICES[key]) or f"write one of {', '.join(CHOICES[key])}"
    notation = NOTATIONS[key]
    bare = text[:64].strip().strip("v=~^<>;`'\"")
    return f'did you mean "{bare}"?' if notation.accepts(bare) else f'write it as in "{notation.example}"'
