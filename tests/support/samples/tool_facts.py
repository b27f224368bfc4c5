"""A tool of a row, and the facts of one that is served to who has the token alone."""

from __future__ import annotations

from typing import Any

from stackwright.core.model.added.tools import Tool

TOOL = Tool(name="jupyterlab", version="4.6.6", port=8888)


def served() -> dict[str, Any]:
    return {
        "uid": 12345, "port": 7000, "page": {"status": 200, "title": "JupyterLab"}, "works": None,
        "shown": [], "printed": False, "listens": ["127.0.0.1:7000"], "empty": {"code": 2, "said": ""},
        "closed": {
            "/": [{"status": 302, "leads": "/lab"}] * 2, "/lab": [{"status": 302, "leads": "/login"}] * 2,
            "/api/contents": [{"status": 403, "leads": ""}] * 2,
        },
    }  # fmt: skip
