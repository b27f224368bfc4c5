"""The documentation as a site: its pages are the Markdown files of the repository, as they are.

`docs/index.md` is the contents: each of its headings is a part of the navigation, and the links below it are
the pages of that part. Sphinx warns of a page that is in no part, and `make docs` fails on a warning.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from stackwright import __version__  # noqa: E402 (found by the path above)

CONTENTS = "docs/index"
RESULTS = "docs/results/README"

project = "Stackwright"
version = release = os.environ.get("STACKWRIGHT_DOCS_VERSION") or __version__

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = CONTENTS
include_patterns = ["*.md", "docs/**.md", "examples/*.md"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"Stackwright {version}"
templates_path = ["templates"]
html_extra_path = ["front"]
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
        "versions.html", "sidebar/scroll-end.html",
    ],
}  # fmt: skip
html_context = {"versions": os.environ.get("STACKWRIGHT_DOCS_VERSIONS", "").split()}

linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_anchors = False  # what GitHub's pages have is made by their scripts


def tree(caption: str, pages: list[str]) -> str:
    lines = ["```{toctree}", ":hidden:", ":glob:", f":caption: {caption}", "", *pages, "```"]
    return "\n".join(lines)


def trees(text: str) -> list[str]:
    """Return a tree for each heading of the contents, with the pages that are linked below it."""
    parts = (part.partition("\n")[::2] for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:])
    return [
        tree(
            caption, [os.path.normpath(f"/docs/{link}") for link in re.findall(r"\]\(([^)#:]+)\.md\)", body)]
        )
        for caption, body in parts
    ]


def _add_trees(_: Any, name: str, source: list[str]) -> None:
    added = {CONTENTS: trees(source[0]), RESULTS: [tree("Reports", ["/docs/results/*/**"])]}.get(name, [])
    source[0] = "\n\n".join([source[0], *added])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _add_trees)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
