"""Shards as each CI service wants to read them. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stackwright.nightly.ci.files import rendered
from stackwright.nightly.ci.shards import Shard

SLOWER = 4
"""How much longer than estimated a shard may take: on a smaller machine, with nothing in any cache."""

TIMEOUTS = (60, 350)
"""Minutes: setting up takes its time, and a job of GitHub's own machines ends after 360."""


def document(found: Sequence[Shard]) -> dict[str, Any]:
    """``shards list``."""
    return {"version": 1, "shards": [{"rows": list(shard.rows), "minutes": shard.minutes} for shard in found]}


def outputs(found: Sequence[Shard], *, own: bool = False) -> str:
    """``shards list --format github``: lines for the file that GITHUB_OUTPUT names, the matrix among them."""
    matrix = {"include": list(_jobs(found))}
    return f"count={len(found)}\nmatrix={json.dumps(matrix, separators=(',', ':'))}\n"


def pipeline(found: Sequence[Shard], *, own: bool = False) -> str:
    """``shards list --format gitlab``: the pipeline that the first one starts."""
    return rendered("gitlab-shards.yml.j2", own=own, shards=list(_jobs(found)))


def _jobs(found: Sequence[Shard]) -> Iterator[dict[str, Any]]:
    least, most = TIMEOUTS
    for number, shard in enumerate(found, 1):
        timeout = min(max(SLOWER * shard.minutes, least), most)
        yield {"shard": number, "of": len(found), "rows": " ".join(shard.rows), "timeout": timeout}


FORMS: Mapping[str, Callable[..., str]] = {"github": outputs, "gitlab": pipeline}
