"""JSON from outside: an object, or an AttestError that says where it stood."""

from __future__ import annotations

import json
from typing import Any

from stackwright.core.errors import AttestError


def json_object(content: bytes, place: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise AttestError("not JSON", place=place) from error
    if not isinstance(document, dict):
        raise AttestError("no JSON object", place=place)
    return document
