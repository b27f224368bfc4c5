"""Checks of the row's tools: each is served to who has the token alone, and where it was asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, take
from stackwright.core.components.table import BY_NAME
from stackwright.core.model.row import Stack, Tier

CLOSED = (401, 403)
LOGIN = ("/login", "/lab")
"""Where JupyterLab leads who has no token; the second is closed itself, which is asked as well."""
Found = Mapping[str, Any]


def _of_each(judge: Callable[[Found, str], Iterator[str]]) -> Callable[[Stack, Facts], Finding]:
    """Ask about each tool, as an unknown user with a root that is read-only."""

    def over_tools(stack: Stack, facts: Facts) -> Finding:
        problems = []
        for tool in stack.tools:
            found = take(facts, "sealed", "tool", tool.name)
            problems += [f"{BY_NAME[tool.name].title} {problem}" for problem in judge(found, tool.name)]
        return finding(problems, listed(f"{BY_NAME[tool.name].title} {tool.version}" for tool in stack.tools))

    return over_tools


def serves(found: Found, name: str) -> Iterator[str]:
    if "page" not in found:
        yield f"does not start: {found['error']}"
        return
    server = BY_NAME[name].server
    wanted = server.title if server else ""
    page = found["page"]
    if page["status"] != 200 or page["title"] != wanted:
        yield f"answers {page['status']} with the page {page['title']!r} to who has the token"
    if found["works"]:
        yield f"does not work behind its page: {found['works']}"


def closed(found: Found, name: str) -> Iterator[str]:
    """A redirect counts as closed where it leads to what is asked itself, or to the page for a token."""
    for path, answers in sorted(found["closed"].items()):
        for answer, what in zip(answers, ("no token", "another token"), strict=True):
            leads = answer["leads"] in LOGIN and path != answer["leads"]
            if answer["status"] not in CLOSED and not (answer["status"] == 302 and leads):
                yield f"answers {answer['status']} to {path} with {what}"


def never_without(found: Found, name: str) -> Iterator[str]:
    empty = found["empty"]
    if not empty["code"]:
        yield f"starts with an empty token: {empty['said']}"


def hidden(found: Found, name: str) -> Iterator[str]:
    if found["shown"]:
        yield f"has its token in the arguments of {listed(found['shown'])}"
    if found["printed"]:
        yield "prints the token that it was given"


def listens(found: Found, name: str) -> Iterator[str]:
    wanted = [f"127.0.0.1:{found['port']}"]
    if found["listens"] != wanted:
        yield f"listens on {listed(found['listens']) or 'nothing'}, and was asked to on {wanted[0]}"


def _serves_any(stack: Stack) -> bool:
    return bool(stack.tools)


L = Tier.LINK
SERVED = ("tool.serves",)
RULES = (
    Rule(id="tool.serves", tier=L, judge=_of_each(serves), applies=_serves_any,
         needs=("added.import", "static.any-user-folders"),
         why="A tool starts as an unknown user, shows its page to who has the token, and works behind it."),
    Rule(id="tool.closed", tier=L, judge=_of_each(closed), applies=_serves_any, needs=SERVED,
         why="Who reaches a notebook's port without the token would run programs as its user."),
    Rule(id="tool.needs-token", tier=L, judge=_of_each(never_without), applies=_serves_any, needs=SERVED,
         why="An empty variable or file must not start a tool that is open to everyone."),
    Rule(id="tool.token-hidden", tier=L, judge=_of_each(hidden), applies=_serves_any, needs=SERVED,
         why="Every user of a node can read the arguments of all programs, and often the log of a job."),
    Rule(id="tool.listens", tier=L, judge=_of_each(listens), applies=_serves_any, needs=SERVED,
         why="A tool listens where it was asked to and nowhere else: other ports would ask for no token."),
)  # fmt: skip
