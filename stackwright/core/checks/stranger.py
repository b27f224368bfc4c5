"""Checks of the image as a user whom it does not know, and with a root that is read-only."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from stackwright.core.checks.check import DOCKER, Facts, Finding, Rule, cause, finding, take
from stackwright.core.checks.ranks import RANKS, allreduce, errors
from stackwright.core.checks.tables.collective import runs
from stackwright.core.checks.tables.link import compiles
from stackwright.core.components.table import COMPILERS, LAUNCHERS, of
from stackwright.core.model.row import Stack, Tier
from stackwright.core.render import configuration

STRANGER = "12345:23456"
"""The user and the group that a container is started as: no file of an image names them."""


def compiles_at_run_time(stack: Stack) -> bool:
    return any(framework.compiles for framework in of(stack.frameworks))


def first_run(stack: Stack) -> tuple[str, ...]:
    """Return the collective that is run once more: "torch/mpi", or nothing where the row has none."""
    return runs(stack)[:1]


def name(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "stranger", "names")
    if found["error"]:
        return finding([f"user {found['uid']} has no name: {found['error']}"])
    problems = []
    if found["again"] != found["uid"]:
        problems.append(f"{found['name']} is the name of {found['uid']}, and leads to {found['again']}")
    if not str(found["home"]).startswith("/") or posixpath.basename(found["shell"]) in ("nologin", "false"):
        problems.append(f"{found['name']} has the home {found['home']} and the shell {found['shell']}")
    return finding(problems, f"{found['name']} ({found['uid']}:{found['gid']}), {found['shell']}")


def folders(stack: Stack, facts: Facts) -> Finding:
    """Where the root is read-only, the working directory is what a user mounts there."""
    found = take(facts, "stranger")
    problems = list(_unwritable(found, but=(configuration.FOLDER,) if found["read_only"] else ()))
    if "image" in facts:
        sealed = take(facts, "sealed", "stranger")
        problems += [] if sealed["read_only"] else ["the root was not read-only"]
        told = _unwritable(sealed, but=(configuration.FOLDER,))
        problems += [f"{problem}, where the root is read-only" for problem in told]
    return finding(problems, ", ".join((found["home"]["path"], *found["folders"])))


def _unwritable(found: Mapping[str, Any], but: tuple[str, ...]) -> Iterator[str]:
    home = found["home"]
    if home["unwritable"]:
        yield f"the home {home['path'] or 'is not set'} cannot be written ({home['unwritable']})"
    for folder, error in found["folders"].items():
        if error and folder not in but:
            yield f"{folder} cannot be written ({error})"


def ssh(stack: Stack, facts: Facts) -> Finding:
    broken = take(facts, "stranger", "ssh")
    return finding([f"no command runs over ssh: {cause(broken)}"] if broken else [], configuration.SSH_SERVER)


def compiled(stack: Stack, facts: Facts) -> Finding:
    return compiles(stack, take(facts, "sealed"))


def collectives(stack: Stack, facts: Facts) -> Finding:
    problems = []
    for run in first_run(stack):
        found = take(facts, "sealed", "collective", run)
        ranks = sorted(found["ranks"], key=lambda rank: int(rank["rank"]))
        wrong = errors(ranks)
        if found.get("error") and not wrong:
            wrong = [f"{found['error']}: {cause(str(found.get('output', '')))}"]
        if not wrong and [rank["size"] for rank in ranks] != [RANKS] * RANKS:
            wrong = [f"{len(ranks)} ranks left a result, {RANKS} were started"]
        problems += [f"{run}: {problem}" for problem in wrong or allreduce(ranks)]
    return finding(problems, ", ".join(first_run(stack)))


S, L, C = Tier.STATIC, Tier.LINK, Tier.COLLECTIVE
RULES = (
    Rule(id="static.any-user-name", tier=S, judge=name, needs=("static.user",),
         why="ssh, mpirun and Python ask for the name, the home and the shell of the user they run as."),
    Rule(id="static.any-user-folders", tier=S, judge=folders,
         why="Every user can write to the home, the working directory and /tmp, or has another home."),
    Rule(id="static.any-user-ssh", tier=S, judge=ssh, worlds=DOCKER,
         needs=("static.ssh", "static.any-user-name", "static.any-user-folders"),
         why=f"{' and '.join(('mpirun', *LAUNCHERS))} reach other nodes as the user of the container."),
    Rule(id="link.any-user-compile", tier=L, judge=compiled, worlds=DOCKER, applies=compiles_at_run_time,
         needs=("link.compile", "static.any-user-folders"),
         why=f"{COMPILERS} keeps its cache where an unknown user can write, with a root that is read-only."),
    Rule(id="collective.any-user", tier=C, judge=collectives, worlds=DOCKER,
         applies=lambda stack: bool(first_run(stack)),
         needs=("collective.run", "collective.allreduce", "static.any-user-name", "static.any-user-folders"),
         why="Two ranks find each other and sum as an unknown user, with a root that is read-only."),
)  # fmt: skip
