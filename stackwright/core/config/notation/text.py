"""The notation of a string, for the loader and for the editors' JSON schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version
from pydantic import ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from stackwright.core.config import additions


@dataclass(frozen=True, slots=True)
class Notation:
    """How a string is written: ``pattern`` matches all of it, ``example`` is one that is right."""

    pattern: str
    example: str
    pep440: bool = False
    pep508: bool = False

    def accepts(self, text: str) -> bool:
        if not re.fullmatch(self.pattern, text, re.ASCII):
            return False
        if self.pep508:
            return additions.normal(text) is not None
        if self.pep440:
            try:
                Version(text)
            except InvalidVersion:
                return False
        return True

    def _check(self, text: str) -> str:
        if not self.accepts(text):
            raise PydanticCustomError("notation", "not {like}", {"like": self.example})
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^({self.pattern})$", "examples": [self.example]}


STRICT = ConfigDict(extra="forbid", strict=True)
"""Of every mapping: no other keys, and nothing is converted."""

ID = Notation(r"[a-z0-9][a-z0-9._-]{0,62}", "cuda12-torch")
"""Of a row; the example is one of matrix.yaml."""

MAX_PATTERNS = 100
