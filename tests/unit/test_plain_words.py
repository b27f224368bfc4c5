"""Docstrings, comments, help, messages and documents are in plain English: what they may not have."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
INSTEAD = {
    r"(is|are|was|were|be|been|being) told": "is printed, is reported, gets",
    r"stands? (for|before)|what stands": "represents, a proxy in front of",
    r"beside": "next to, with, besides",
    r"(has|have|had) not": "lacks, does not have",
    r"(comes?|came|coming) to": "is, reaches, amounts to",
    r"nobody|no one": "no user, no process",
    r"bec(omes?|ame|ome) of": "the result, the outcome",
    r"another's|others'": "of another owner, third-party",
    r"meets?|met": "encounters, is compatible with",
    r"(tells?|told|says?|said) of": "reports, describes, names",
    r"another (try|time)|tried again": "retry",
    r"(is|are) at (work|it)": "is running",
    r"(goes|go|going|went|gone) on": "continues",
    r"whoever|who asks|the one (who|that asks)": "the caller, the process",
    r"of (ours|theirs)": "in Stackwright, of that user",
    r"(some|any)(body|one)( else)?": "a user, another process",
    r"by now": "already",
    r"to its end": "until it is finished",
    r"keeps? [a-z ]{0,20} from": "prevents, blocks",
    r"held to": "must match, is checked against",
    r"in the place of": "instead of",
    r"in words": "as text",
    r"put right|mend(ed)?": "fix, correct",
    r"from beginning to end": "whole",
    r"give way|counts? on|how far|is wanted": "a word of the field",
}
"""Expressions that ask to be translated, and what to write."""

WORDS = re.compile("|".join(rf"\b(?:{words})\b" for words in INSTEAD), re.IGNORECASE)


def odd(text: str) -> Iterator[str]:
    """Each expression of the list in the strings and comments of a module, with its line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in WORDS.finditer(" ".join(node.value.split())):
                yield f"{node.lineno}: {match[0]}"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            for match in WORDS.finditer(token.string):
                yield f"{token.start[0]}: {match[0]}"


def odd_prose(text: str) -> Iterator[str]:
    """Each expression of the list in a document. A paragraph is read as one line."""
    line = 1
    for paragraph in text.split("\n\n"):
        yield from (f"{line}: {match[0]}" for match in WORDS.finditer(" ".join(paragraph.split())))
        line += paragraph.count("\n") + 2


def packages() -> list[str]:
    folders = (path for path in (ROOT / "stackwright").iterdir() if path.is_dir())
    return [*sorted(f"stackwright/{path.name}" for path in folders), "probes", "bench"]


@pytest.mark.parametrize("package", packages())
def test_sentences_are_plain(package: str) -> None:
    paths = sorted((ROOT / package).rglob("*.py"))
    found = {str(path.relative_to(ROOT)): list(odd(path.read_text())) for path in paths}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("path", ["README.md", "SECURITY.md", *(f"docs/{name}" for name in DOCUMENTS)])
def test_documents_are_plain(path: str) -> None:
    assert list(odd_prose((ROOT / path).read_text())) == []


def test_an_odd_sentence_is_found() -> None:
    text = '"""What became of a row is told\nbeside it."""\nprint(f"{x} has not met")\n# nobody reads this\n'
    assert list(odd(text)) == ["1: became of", "1: is told", "1: beside", "3: has not", "3: met", "4: nobody"]
    assert list(odd_prose("# Title\n\nEach row\nis\ntold of.")) == ["3: is told"]
