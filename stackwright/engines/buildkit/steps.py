"""The steps of one solve, each with an identity that other solves share. Pure.

BuildKit calls a vertex by a digest of its definition. What reads the build context has another digest in each
solve, because the session is part of the definition. And a solve that was merged with another one reports
the other's vertex as done and its own as cached (both seen with Docker 28.5, buildx 0.29).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace

from stackwright.core.render.instructions import files_read
from stackwright.engines.buildkit.progress import Step, is_noise

CONTEXT = "[internal] load build context"

INSTRUCTION = re.compile(r"\[[^\]]*\d+/\d+\] (.+)", re.DOTALL)
"""A vertex that an instruction of the Dockerfile made: `[final 2/5] RUN …`."""

IMPORT = re.compile(r"(importing cache manifest) from .*", re.DOTALL)
"""The rest is the site's registry, and records are published."""


def own_steps(steps: Mapping[str, Step], files: Mapping[str, bytes]) -> tuple[Step, ...]:
    """What this solve asked for, in the order in which BuildKit told it; ``steps`` are by digest.

    A step that a concurrent solve executed for both has that one's digest and times, and is not cached.
    ``files`` is the build context.
    """
    graph = _Graph(steps, files)
    own = graph.own()
    executed = {graph.identity(digest): digest for digest, step in steps.items() if _executed(step)}
    told: list[Step] = []
    for digest, step in steps.items():
        if not INSTRUCTION.match(step.name):
            told += [] if is_noise(step.name) else [replace(step, name=IMPORT.sub(r"\1", step.name))]
        elif digest in own:
            identity = graph.identity(digest)
            used = executed.get(identity, digest) if step.cached else digest
            told.append(replace(steps[used], name=step.name, digest=used, identity=identity))
    return tuple(told)


def _executed(step: Step) -> bool:
    return step.completed is not None and not step.cached and not step.error


class _Graph:
    def __init__(self, steps: Mapping[str, Step], files: Mapping[str, bytes]) -> None:
        self._steps, self._files = steps, files
        self._known: dict[str, str] = {}

    def own(self) -> set[str]:
        """Return all that the target needs. BuildKit reports it before the steps of a concurrent solve."""
        needed = {digest for step in self._steps.values() for digest in step.inputs}
        roots = (
            digest
            for digest, step in self._steps.items()
            if digest not in needed and INSTRUCTION.match(step.name)
        )
        found, waiting = set[str](), list(roots)[:1]
        while waiting:
            digest = waiting.pop()
            if digest in self._steps and digest not in found:
                found.add(digest)
                waiting += self._steps[digest].inputs
        return found

    def identity(self, digest: str) -> str:
        """BuildKit's digest, or, where the context has a part in it, a digest of text, inputs and files."""
        if digest not in self._known:
            self._known[digest] = self._identity(digest)
        return self._known[digest]

    def _identity(self, digest: str) -> str:
        step = self._steps.get(digest)
        if step is None or step.name == CONTEXT:  # a step of a parallel solve is not reported
            return CONTEXT
        inputs = [self.identity(source) for source in step.inputs]
        if inputs == list(step.inputs):
            return digest
        match = INSTRUCTION.match(step.name)
        text = match[1] if match else step.name
        read = [files_read(text, self._files) if identity == CONTEXT else identity for identity in inputs]
        return "sha256:" + hashlib.sha256("\0".join((text, *read)).encode()).hexdigest()
