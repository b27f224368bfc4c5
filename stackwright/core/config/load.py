"""Read ``matrix.yaml``. Whatever the file holds, the outcome is a Matrix or one MatrixError.

``load`` reads the file, ``interpret`` is pure. The tree of ``document`` becomes plain values, pydantic
checks them against ``schema``, and the first problem is reported in the user's words at its place.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stackwright.core.config import additions, own, schema, unsupported
from stackwright.core.config.messages import HOW, HOW_MANY, explain
from stackwright.core.config.notation.publishing import PublishFields
from stackwright.core.config.yaml_tree import LOADER, Mapping, Node, Sequence, at, parse, short, wrong
from stackwright.core.errors import MatrixError
from stackwright.core.model.added.image import Folder
from stackwright.core.model.matrix import (
    Axis,
    Exclusion,
    Fields,
    Mark,
    Matrix,
    Pattern,
    PlatformTag,
    Publish,
    Row,
    Value,
)
from stackwright.core.model.row import Mpi

MAX_BYTES = 2**20
"""Of the file. A row of every field is about 400 bytes."""

START = Mark(line=1, column=1)


def load(path: Path) -> Matrix:
    """Raises MatrixError, with file, line and column, for everything that is wrong with the file."""
    beside = Beside(
        text=lambda name: _read_from_folder(path, name),
        folder=partial(own.read_folder, path.parent),
        wheels=partial(own.read_folder, path.parent, limit=own.MOST_OF_WHEELS, searched=False),
    )
    return interpret(read_text(path), str(path), beside=beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What lies next to the matrix, by its name: the text of a file, and the files of a folder."""

    text: Callable[[str], str]
    folder: Callable[[str], tuple[tuple[str, bytes], ...]]
    wheels: Callable[[str], tuple[tuple[str, bytes], ...]]


def interpret(text: str, path: str, loader: type[Any] = LOADER, beside: Beside | None = None) -> Matrix:
    """Return the matrix that ``text`` describes. ``path`` is only for messages."""
    root = parse(text, path, loader)
    try:
        checked = ADAPTER.validate_python(plain(root))
    except ValidationError as error:
        raise explain(error, root, path) from None
    matrix = _matrix(checked, root, path, _Values(beside, path))
    _refuse_double(matrix)
    _refuse_incomplete(matrix)
    return matrix


ADAPTER: TypeAdapter[schema.MatrixFile] = schema.adapter()


# --------------------------------------------------------------------------------------- the file


def _read_from_folder(matrix: Path, name: str) -> str:
    path = matrix.parent / name
    if path.is_symlink():
        hint = "put the file itself into the folder of the matrix"
        raise MatrixError("a link is not followed", place=str(path), hint=hint)
    return read_text(path)


def read_text(path: Path) -> str:
    """Read a file of the project. Raise MatrixError for what is not text of a sensible size."""
    return _decode(_read(path), str(path))


def _read(path: Path) -> bytes:
    """Never more than one byte past the limit is read, whatever the size of the file."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise MatrixError(
                "this is a directory", place=str(path), hint="name the file, as in --matrix matrix.yaml"
            )
        if not stat.S_ISREG(mode):
            raise MatrixError(
                "this is not a regular file", place=str(path), hint="write the matrix to a file"
            )
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = _siblings(path)
        raise MatrixError("there is no such file", place=str(path), hint=near) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MatrixError(
            f"cannot be read: {reason}", place=str(path), hint="check the name and its permissions"
        ) from None
    if len(data) > MAX_BYTES:
        raise wrong(
            str(path), START, "the file is larger than 1 MiB", "write combinations as axes, not as rows"
        )
    return data


def _siblings(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    near = get_close_matches(path.name, names, n=1)
    return (
        f"did you mean {str(path.parent / near[0])!r}?"
        if near
        else "--matrix FILE names another one; ./build.py init writes a first one"
    )


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        mark = Mark(line=before.count("\n") + 1, column=len(before) - (before.rfind("\n") + 1) + 1)
        cause = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise wrong(path, mark, cause, "save the file as UTF-8") from None


# ------------------------------------------------------------------------------- tree and values


def plain(node: Node) -> Any:
    """Return what pydantic checks. A scalar that is neither string, bool nor null stays a node, which
    no type accepts: a number would have lost how it was written."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, Sequence):
        return tuple(plain(item) for item in node.items)
    if node.kind == "boolean" and node.text.lower() in {"true", "false"}:
        return node.text.lower() == "true"
    return {"string": node.text, "null": None}.get(node.kind, node)


class _Values:
    """Makes the values of fields, and reads the files that they name."""

    def __init__(self, beside: Beside | None, path: str) -> None:
        self._beside, self._path = beside, path
        self._makers: dict[str, Callable[[Any], Value]] = {
            "pip": self._pip,
            "compile": lambda checked: additions.together(map(_source, checked)),
            **dict.fromkeys(("env", "build-env"), lambda checked: own.variables(checked.items())),
            "files": self._folders,
            "ports": own.ports,
            "user": own.user,
            "wheels": self._wheels,
        }

    def fields(self, checked: Any) -> Fields:
        return tuple((name, self.of(name, value)) for name, value in checked.items() if name != "id")

    def of(self, name: str, checked: Any) -> Value:
        if name in self._makers:
            return self._makers[name](checked)
        value: Value = Mpi.of(**checked) if isinstance(checked, dict) else checked
        return value

    def _pip(self, checked: Any) -> Value:
        if isinstance(checked, dict) and "pyproject" in checked:
            return self._project(checked["pyproject"], checked.get("extras", ()))
        if isinstance(checked, dict):
            return self._file(checked["requirements"])
        entries = [entry if isinstance(entry, dict) else {"name": entry} for entry in checked]
        return additions.together(
            ((entry["name"], (entry["import"],) if "import" in entry else ()) for entry in entries),
            extra=[entry["name"] for entry in entries if entry.get("index") == "extra"],
        )

    def _wheels(self, name: str | None) -> Value:
        if name is None:
            return None
        if self._beside is None:
            raise wrong(self._path, START, "a folder of wheels needs a matrix in a folder")
        files = self._beside.wheels(name)
        if wrong_one := own.odd_wheel(files):
            raise MatrixError(wrong_one, place=name, hint="put one version of each wheel into the folder")
        return Folder(source=name, place="", files=files)

    def _text(self, name: str) -> str:
        if self._beside is None:
            raise MatrixError("a file of requirements needs a matrix in a folder", place=name)
        return self._beside.text(name)

    def _project(self, name: str, extras: Iterable[str]) -> Value:
        try:
            found = additions.of_project(self._text(name), extras)
        except ValueError as error:
            hint = "name its requirements in a list, or correct the file"
            raise MatrixError(f"cannot be read as a project: {error}", place=name, hint=hint) from None
        for requirement in found:
            if additions.normal(requirement) is None:
                raise _not_a_requirement(name, 1, requirement)
        return additions.together((requirement, ()) for requirement in found)

    def _file(self, name: str) -> Value:
        found = []
        for number, line in additions.lines(self._text(name)):
            if additions.normal(line) is None:
                raise _not_a_requirement(name, number, line)
            found.append((line, ()))
        if len(found) > additions.MOST:
            raise wrong(name, START, f"more than {additions.MOST} requirements", HOW_MANY["pip"])
        return additions.together(found)

    def _folders(self, checked: Any) -> Value:
        if checked and self._beside is None:
            raise MatrixError(
                "a folder that is copied in needs a matrix in a folder", place=checked[0]["from"]
            )
        found = tuple(
            Folder(source=folder["from"], place=folder["to"], files=self._beside.folder(folder["from"]))
            for folder in checked
            if self._beside
        )
        if path := own.twice(found):
            raise MatrixError(
                f"two folders of 'files' have {path}", place=found[-1].source, hint="rename one"
            )
        return found


def _source(checked: Any) -> additions.Item:
    """Return an entry of ``compile``: the name of a requirement, or a mapping."""
    if not isinstance(checked, dict):
        return checked, ()
    modules = (checked["import"],) if "import" in checked else ()
    return checked["name"], modules, tuple(checked.get("env", {}).items()), tuple(checked.get("needs", ()))


def _not_a_requirement(name: str, number: int, line: str) -> MatrixError:
    entry = unsupported.value("pip", line)
    why = f"is not supported: {entry.why}" if entry else "is not a requirement"
    hint = entry.instead if entry else f"write it as in {schema.OF_PIP['pip'].example}"
    return wrong(name, Mark(line=number, column=1), f"{short(line)} {why}", hint)


def _matrix(checked: schema.MatrixFile, root: Node, path: str, values: _Values) -> Matrix:
    rows = zip(checked.get("include", ()), _items(root, "include"), strict=True)
    excluded = zip(checked.get("exclude", ()), _items(root, "exclude"), strict=True)
    chosen = zip(checked.get("select", ()), _items(root, "select"), strict=True)
    axes: dict[str, Any] = {**checked.get("axes", {})}
    _, written = at(root, ("axes",))
    order = [name for name in written.entries if name in axes] if isinstance(written, Mapping) else []
    return Matrix(
        path=path,
        defaults=values.fields(checked.get("defaults", {})),
        axes=tuple(
            Axis(
                field=name,
                values=tuple(values.of(name, value) for value in axes[name]),
                mark=at(root, ("axes", name))[0],
            )
            for name in order
        ),
        include=tuple(Row(id=row["id"], fields=values.fields(row), mark=node.mark) for row, node in rows),
        exclude=tuple(Exclusion(fields=values.fields(fields), mark=node.mark) for fields, node in excluded),
        patterns=tuple(Pattern(text=text, mark=node.mark) for text, node in chosen),
        publish=_publish(checked.get("publish", {}), root),
    )


def _publish(checked: PublishFields, root: Node) -> Publish:
    given: dict[str, Any] = {**checked}
    marks = (item.mark for item in _items(at(root, ("publish",))[1], "platforms"))
    given["platforms"] = tuple(
        PlatformTag(tag=fields["tag"], rows=fields["rows"], mark=mark)
        for fields, mark in zip(checked.get("platforms", ()), marks, strict=True)
    )
    return Publish(**given)


def _items(root: Node, key: str) -> list[Node]:
    assert isinstance(root, Mapping)
    node = root.entries[key][1] if key in root.entries else None
    return node.items if isinstance(node, Sequence) else []


# ------------------------------------------------------------------- what one row alone cannot show


def _refuse_double(matrix: Matrix) -> None:
    """Ids of ``include``, and values of an axis: either would give one row twice."""
    first: dict[str, Mark] = {}
    for row in matrix.include:
        if row.id in first:
            cause = f"duplicate row id {short(row.id)}, first on line {first[row.id].line}"
            raise wrong(
                matrix.path, row.mark, cause, f"rename one of lines {first[row.id].line} and {row.mark.line}"
            )
        first[row.id] = row.mark
    for axis in matrix.axes:
        seen: set[Value] = set()
        for value in axis.values:
            if value in seen:
                cause = f"the axis {axis.field!r} has the value {_written(value)} twice"
                raise wrong(matrix.path, axis.mark, cause, "remove one of them")
            seen.add(value)


def _written(value: Value) -> str:
    if isinstance(value, Mpi):
        return f"{value.flavour} {value.version}"
    return short(
        ", ".join(map(str, value)) if isinstance(value, tuple) else "null" if value is None else str(value)
    )


def _refuse_incomplete(matrix: Matrix) -> None:
    shared = {name for name, _ in matrix.defaults}
    for row in matrix.include:
        _require(matrix, shared | {name for name, _ in row.fields}, f"row {row.id!r} has", row.mark)
    if matrix.axes:
        _require(
            matrix,
            shared | {axis.field for axis in matrix.axes},
            "rows of the axes have",
            matrix.axes[0].mark,
        )
    elif matrix.exclude:
        hint = (
            "remove 'exclude': it drops combinations of 'axes', and rows of 'include' are written one by one"
        )
        raise wrong(matrix.path, matrix.exclude[0].mark, "'exclude' without 'axes' excludes nothing", hint)
    elif not matrix.include:
        raise wrong(matrix.path, START, "the matrix has no rows", f"add include: {HOW['include']}")


def _require(matrix: Matrix, given: Iterable[str], who: str, mark: Mark) -> None:
    for names in schema.REQUIRED:
        if not set(names) & set(given):
            name = names[0]
            hint = f"add {name}: {HOW[name]} to the row, or to 'defaults' for all rows"
            raise wrong(matrix.path, mark, f"{who} no {name!r}", hint)
