"""``--set FIELD=VALUE``: a row with some of its values changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stackwright.core.config import additions, own, unsupported
from stackwright.core.config.messages import near as suggestion
from stackwright.core.config.schema import OF_IMAGE, OF_PIP, PARTS, RowFields
from stackwright.core.errors import UsageError
from stackwright.core.facts import distributions
from stackwright.core.model.added.distributions import EXTRA
from stackwright.core.model.row import Cell, Mpi
from stackwright.core.rules.hosts import EXTRA_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A row with the changes of --set. ``chosen`` are the fields that were set; ``extras`` are no fields."""

    cell: Cell
    chosen: frozenset[str] = frozenset()
    extras: tuple[tuple[str, str], ...] = ()


def question(row: Cell, settings: Sequence[str]) -> Question:
    """Read FIELD=VALUE. UsageError where a field is unknown or a value has another notation."""
    values: dict[str, Any] = {}
    extras: dict[str, str] = {}
    subjects = [rule.subject for rule in EXTRA_RULES]
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting!r} has no '='", hint="write it as in --set cuda=13.0")
        if name in values or name in extras:
            raise UsageError(f"--set {setting!r}: {name} is set twice", hint="a field has one value")
        if name in subjects:
            extras[name] = _version(setting, text)
        elif name in FIELDS:
            values[name] = text
        else:
            raise _unknown_field(setting, name)
    if re.fullmatch(r"[0-9]{1,3}", values.get("cuda", ""), re.ASCII):  # CUDA 13, as people say it
        values["cuda"] = (
            row.cuda if (row.cuda or "").startswith(f"{values['cuda']}.") else f"{values['cuda']}.0"
        )
    parsed = {name: _value(name, text, values.get("os", row.os)) for name, text in values.items()}
    return Question(
        cell=row.changed(parsed), chosen=frozenset({*parsed, *extras}), extras=tuple(extras.items())
    )


def _unknown_field(setting: str, name: str) -> UsageError:
    every = (*FIELDS, *(rule.subject for rule in EXTRA_RULES))
    entry = unsupported.name(name)
    if entry:
        return UsageError(f"--set {setting!r}: there is no field {name!r}: {entry.why}", hint=entry.instead)
    hint = suggestion(name, every) or f"fields: {', '.join(every)}"
    return UsageError(f"--set {setting!r}: unknown field {name!r}", hint=hint)


FIELDS = tuple(RowFields.__annotations__)


def _version(setting: str, text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,4}", text, re.ASCII):
        raise UsageError(f"--set {setting!r}: not a version", hint="write it as in --set setuptools=75")
    return text


def _value(name: str, text: str, os: str) -> Any:
    """Return the value of a field as the matrix would have it; an empty text leaves the field out."""
    entry = unsupported.value(name, text.replace(EXTRA, ""))
    if entry:
        raise UsageError(f"--set {name}={text} is not supported: {entry.why}", hint=entry.instead)
    if name in READERS:
        return READERS[name](text)
    plain: Any = text or None
    if name in ("gpu_arch", "fabric", "benchmarks"):
        plain = tuple(text.split(",")) if text else ()
    elif name == "mpi":
        flavour, version = _mpi(text)
        known = distributions.distribution(os)
        plain = {"flavour": flavour, "version": version or (getattr(known, flavour, "") if known else "")}
    elif name in ("test_on_gpu", *PARTS):
        plain = {"true": True, "false": False}.get(text, plain)
    try:
        checked: Any = ROW.validate_python({name: plain})
    except ValidationError as error:
        first = error.errors()[0]
        why = f"not written as in {first['ctx']['like']}" if first["type"] == "notation" else first["msg"]
        raise UsageError(f"--set {name}={text}: {why}", hint="docs/matrix.md has the notation") from None
    value = checked[name]
    return Mpi.of(**value) if isinstance(value, dict) else value


ASKED = re.compile(rf"\[({additions.VARIABLE})=({additions.SETTING})\]", re.ASCII)
NEEDED = re.compile(r"\{([^{}]+)\}", re.ASCII)
"""Behind the requirement of a source: a variable of its build, and what that needs."""


def _requirements(field: str, text: str) -> Any:
    """Read NAME, or NAME:MODULE+MODULE, with spaces between them. Of pip, @extra may follow; of compile,
    [VARIABLE=VALUE] and {NEED}."""
    of_source = (ASKED, NEEDED) if field == "compile" else ()
    words = []
    for word in text.split():
        plain = word.removesuffix(EXTRA)
        for pattern in of_source:
            plain = pattern.sub("", plain)
        variables, needs = [tuple(pattern.findall(word)) for pattern in of_source] or ((), ())
        head, colon, modules = plain.partition(":")
        words.append((head, tuple(modules.split("+")) if colon else (), variables, needs))
    requirement, module = OF_PIP["pip"], OF_PIP["import"]
    for head, named, _, needed in words:
        if not all(map(requirement.accepts, (head, *needed))) or not all(map(module.accepts, named)):
            like = {"pip": '"einops pyyaml>=6:yaml"', "compile": '"flash-attn[MAX_JOBS=2] x{ninja}:y"'}
            hint = f"write it as in --set {field}={like[field]}"
            raise UsageError(f"--set {field}: {head!r} is no requirement", hint=hint)
    extra = [found[0] for found, word in zip(words, text.split(), strict=True) if word.endswith(EXTRA)]
    return additions.together(words, extra)


def _listed(name: str) -> Callable[[str], Any]:
    """Return what reads a list with commas in it."""

    def read(text: str) -> Any:
        plain = tuple(text.split(",")) if text else ()
        try:
            checked: Any = ROW.validate_python({name: plain})
        except ValidationError:
            hint = f"write it as in --set {name}={OF_IMAGE[name].example}"
            raise UsageError(f"--set {name}={text}: not written so", hint=hint) from None
        return own.ports(checked[name]) if name == "ports" else checked[name]

    return read


def _user(text: str) -> Any:
    if text and not OF_IMAGE["user"].accepts(text):
        hint = f"write it as in --set user={OF_IMAGE['user'].example}"
        raise UsageError(f"--set user={text}: not written so", hint=hint)
    return own.user(text or None)


def _variables(name: str, text: str) -> Any:
    """Read NAME=VALUE with spaces between them; a value with a space is in quotes. No value is shown."""
    try:
        pairs = dict(word.partition("=")[::2] for word in shlex.split(text))
        checked: Any = ROW.validate_python({name: pairs})
    except (ValueError, ValidationError):
        like = {"env": "HF_HOME=/data", "build-env": "MAX_JOBS=2"}
        hint = f"write it as in --set {name}='{like[name]}'"
        raise UsageError(f"--set {name}: not written so", hint=hint) from None
    return own.variables(checked[name].items())


def _next_to_the_matrix(name: str, empty: Any, text: str) -> Any:
    if text:
        raise UsageError(f"--set {name}: a folder is named by the matrix alone", hint=f"--set {name}=")
    return empty


READERS: Mapping[str, Callable[[str], Any]] = {
    **{name: partial(_requirements, name) for name in ("pip", "compile")},
    **{name: partial(_variables, name) for name in ("env", "build-env")},
    "files": partial(_next_to_the_matrix, "files", ()),
    "wheels": partial(_next_to_the_matrix, "wheels", None),
    "user": _user,
    **{name: _listed(name) for name in ("apt", "ports", "entrypoint")},
}
"""Fields that are lists or mappings, or have more than one notation."""


def _mpi(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"([a-z]+) ?(.*)", text, re.ASCII)
    return (match[1], match[2]) if match else (text, "")


ROW: TypeAdapter[RowFields] = TypeAdapter(RowFields)
