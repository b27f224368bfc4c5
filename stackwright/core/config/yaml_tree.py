"""YAML text to a tree that remembers where everything was written, and what is refused on the way.

Built on PyYAML's parse events. Nothing is composed or constructed: an alias, a tag or an anchor ends
the parse at its event, so that no loop is followed, nothing is multiplied and no object is made.
Scalars keep their text: a 3.10 without quotes is still "3.10" in the message about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from stackwright.core.errors import MatrixError
from stackwright.core.model.matrix import Mark

MAX_DEPTH = 8
"""Levels of nesting; the deepest thing in a matrix is on the 4th."""

LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: ten times faster."""

UNWANTED = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""What YAML does not allow, plus line breaks that editors do not count as lines (NEL, LS, PS)."""

KINDS = {
    "tag:yaml.org,2002:str": "string",
    "tag:yaml.org,2002:int": "integer",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "date",
}
_RESOLVER: Any = yaml.resolver.Resolver()


@dataclass(frozen=True, slots=True)
class Scalar:
    mark: Mark
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    mark: Mark
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mapping:
    """``entries`` maps the text of a key to the key and its value."""

    mark: Mark
    entries: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)


Node = Scalar | Sequence | Mapping


def short(text: str) -> str:
    """Return a value as a message quotes it: on one line, control characters escaped, not too long."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}… ({len(text)} characters)"


def wrong(path: str, mark: Mark, cause: str, hint: str = "") -> MatrixError:
    return MatrixError(cause, place=f"{path}:{mark.line}:{mark.column}", hint=hint)


def parse(text: str, path: str, loader: type[Any] = LOADER) -> Node:
    """Return the one document in ``text``. ``path`` is only for messages."""
    _refuse_characters(text, path)
    builder = _Builder(path)
    events = _events(text, path, loader)
    for event in events:
        builder.take(event)
    if builder.root is None:
        raise wrong(
            path, Mark(line=1, column=1), "the file is empty", "start from the matrix.yaml of the source tree"
        )
    return builder.root


def _refuse_characters(text: str, path: str) -> None:
    match = UNWANTED.search(text)
    if not match:
        return
    before = text[: match.start()]
    mark = Mark(line=before.count("\n") + 1, column=match.start() - (before.rfind("\n") + 1) + 1)
    name = "a NUL byte" if match[0] == "\0" else f"the character U+{ord(match[0]):04X}"
    raise wrong(path, mark, f"{name} is not allowed", "save the file as plain UTF-8 text")


def _events(text: str, path: str, loader: type[Any]) -> Iterator[Any]:
    """PyYAML's events. What its parsers raise becomes one kind of error."""
    source = loader(text)
    try:
        while source.check_event():
            yield source.get_event()
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(line=at.line + 1, column=at.column + 1) if at else Mark(line=1, column=1)
        if at and text[at.index : at.index + 1] == "\t":
            raise wrong(path, mark, "this is a tab", "indent with blanks: YAML takes no tabs") from None
        raise wrong(path, mark, f"not YAML: {error.problem or error.context}", _YAML_HINT) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The Python scanner lets chr() and int() fail on escapes and directives that libyaml reports.
        raise wrong(path, Mark(line=1, column=1), f"not YAML: {short(str(error))}", _YAML_HINT) from None
    finally:
        source.dispose()


_YAML_HINT = "check the indentation, the brackets and the quotes here and on the line before"


class _Builder:
    """Puts events together, with a stack of its own: the depth of the input is not that of Python's."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.root: Node | None = None
        self.documents = 0
        self.open: list[Sequence | Mapping] = []
        self.keys: list[Scalar | None] = []

    def take(self, event: Any) -> None:
        mark = Mark(line=event.start_mark.line + 1, column=event.start_mark.column + 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self._start_document(event, mark)
        elif isinstance(event, yaml.NodeEvent):
            self._refuse(event, mark)
            self._add(self._node(event, mark))
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()
            self.keys.pop()

    def _start_document(self, event: Any, mark: Mark) -> None:
        self.documents += 1
        if self.documents > 1:
            raise wrong(
                self.path, mark, "a second document starts here", "a matrix is one document: remove the '---'"
            )
        if event.version or event.tags:
            raise wrong(
                self.path, mark, "YAML directives are not supported", "remove the lines that start with '%'"
            )

    def _refuse(self, event: Any, mark: Mark) -> None:
        if isinstance(event, yaml.AliasEvent):
            cause = f"the alias {short(f'*{event.anchor}')} is not supported"
            raise wrong(self.path, mark, cause, "write values that rows share under 'defaults'")
        if event.anchor is not None:
            cause = f"the anchor {short(f'&{event.anchor}')} is not supported"
            raise wrong(self.path, mark, cause, "write values that rows share under 'defaults'")
        if event.tag is not None:
            cause = f"the tag {short(event.tag)} is not supported"
            raise wrong(self.path, mark, cause, "remove the tag; a version is written in quotes")

    def _node(self, event: Any, mark: Mark) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(mark, event.value, _kind(event))
        if len(self.open) >= MAX_DEPTH:
            raise wrong(
                self.path,
                mark,
                f"nested deeper than {MAX_DEPTH} levels",
                "no part of a matrix is deeper than 4",
            )
        return Mapping(mark) if isinstance(event, yaml.MappingStartEvent) else Sequence(mark)

    def _add(self, node: Node) -> None:
        if not self.open:
            self.root = node
        else:
            self._put(self.open[-1], node)
        if not isinstance(node, Scalar):
            self.open.append(node)
            self.keys.append(None)

    def _put(self, parent: Sequence | Mapping, node: Node) -> None:
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is not None:
            parent.entries[key.text] = (key, node)
            self.keys[-1] = None
            return
        if not isinstance(node, Scalar):
            raise wrong(self.path, node.mark, "a key must be a word", "write it as 'key: value'")
        if node.text in parent.entries:
            first = parent.entries[node.text][0].mark.line
            cause = f"duplicate key {short(node.text)}, first on line {first}"
            raise wrong(self.path, node.mark, cause, f"keep one of lines {first} and {node.mark.line}")
        self.keys[-1] = node


def _kind(event: Any) -> str:
    """Return what YAML makes of a scalar: only an unquoted one can be anything but a string."""
    if not event.implicit[0] or len(event.value) > 64:
        return "string"
    tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False))
    return KINDS.get(str(tag), "string")


def at(root: Node, loc: tuple[int | str, ...]) -> tuple[Mark, Node]:
    """Return the node that ``loc`` leads to, as far as it is there, and the place to show for it: that of
    the value where it is on the key's line, else that of its key."""
    mark, node = root.mark, root
    for step in loc:
        if isinstance(node, Mapping) and step in node.entries:
            key, node = node.entries[str(step)]
            mark = node.mark if node.mark.line == key.mark.line else key.mark
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            mark = node.mark
    return mark, node
