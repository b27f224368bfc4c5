"""The expressions of GitHub's workflows, as far as ours use them; any other is an error.

Stricter than GitHub, which takes what is not there for an empty string: a misspelt output of a job is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<operator>\|\||&&|==|!=|[!(),])|(?P<name>[A-Za-z_][\w.-]*)|(?P<end>$))"
)
WHOLE = re.compile(r"\$\{\{(?P<inner>(?:(?!\}\}).)*)\}\}", re.DOTALL)
MAY_BE_ABSENT = ("inputs", "vars", "secrets")
"""Contexts that a repository's owner fills."""


class Unsupported(Exception):
    """An expression that this evaluator does not know, or that names what is not there."""


Functions = Mapping[str, Callable[..., Any]]


def evaluate(text: str, contexts: Mapping[str, Any], functions: Functions | None = None) -> Any:
    """What is between ``${{`` and ``}}``."""
    return _Parser(text, contexts, {"fromJSON": json.loads, **(functions or {})}).whole()


def interpolate(text: str, contexts: Mapping[str, Any], functions: Functions | None = None) -> Any:
    """A value of the workflow: an expression alone keeps its type, others become part of the text."""
    if alone := WHOLE.fullmatch(text.strip()):
        return evaluate(alone["inner"], contexts, functions)
    return WHOLE.sub(lambda found: as_text(evaluate(found["inner"], contexts, functions)), text)


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        raise Unsupported(f"a whole object as text: {value!r}")
    return str(value)


class _Parser:
    def __init__(self, text: str, contexts: Mapping[str, Any], functions: Functions) -> None:
        self._text, self._contexts, self._functions = text, contexts, functions
        self._tokens, self._next = self._split(text), 0

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                raise Unsupported(f"{text!r} at {text[at:]!r}")
            assert found.lastgroup is not None
            tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        return [token for token in tokens if token[0] != "end"]

    def whole(self) -> Any:
        value = self._either()
        if self._next != len(self._tokens):
            raise Unsupported(f"{self._text!r}: more than one expression")
        return value

    def _either(self) -> Any:
        value = self._both()
        while self._take("||"):
            other = self._both()
            value = value or other
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._take("&&"):
            other = self._compared()
            value = value and other
        return value

    def _compared(self) -> Any:
        value = self._negated()
        for operator in ("==", "!="):
            if self._take(operator):
                other = self._negated()
                if type(value) is not type(other) and None not in (value, other):
                    raise Unsupported(f"{self._text!r} compares {value!r} with {other!r}")
                return (as_text(value) == as_text(other)) is (operator == "==")
        return value

    def _negated(self) -> Any:
        return not self._negated() if self._take("!") else self._single()

    def _single(self) -> Any:
        if self._take("("):
            value = self._either()
            self._must(")")
            return value
        kind, word = self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")
        self._next += 1
        if kind == "text":
            return word[1:-1].replace("''", "'")
        if kind != "name":
            raise Unsupported(f"{self._text!r} at {word!r}")
        if self._take("("):
            return self._called(word)
        return {"true": True, "false": False}[word] if word in ("true", "false") else self._looked_up(word)

    def _called(self, name: str) -> Any:
        if name not in self._functions:
            raise Unsupported(f"the function {name}")
        arguments = [] if self._take(")") else [self._either()]
        if arguments:
            self._must(")")
        return self._functions[name](*arguments)

    def _looked_up(self, path: str) -> Any:
        root, *rest = path.split(".")
        if root not in self._contexts:
            raise Unsupported(f"the context {root!r} of {path!r}")
        value = self._contexts[root]
        for name in rest:
            if not isinstance(value, Mapping) or name not in value:
                if root in MAY_BE_ABSENT:
                    return None
                raise Unsupported(f"{path!r}: there is no {name!r}")
            value = value[name]
        return value

    def _take(self, operator: str) -> bool:
        found = self._next < len(self._tokens) and self._tokens[self._next] == ("operator", operator)
        self._next += found
        return found

    def _must(self, operator: str) -> None:
        if not self._take(operator):
            raise Unsupported(f"{self._text!r}: {operator!r} is missing")
