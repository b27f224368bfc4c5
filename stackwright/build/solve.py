"""Recipe to image: one BuildKit solve, its whole log kept, its failure explained."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from stackwright.core.credentials import redact
from stackwright.core.errors import BuildError
from stackwright.core.facts import distributions
from stackwright.core.facts.build_failures import BuildFailure, known_cause, last_lines, subject
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.labels import of_recipe
from stackwright.core.model.row import Recipe
from stackwright.core.model.site import Secret, Site
from stackwright.core.render.dockerfile import reference, write
from stackwright.core.resolve.bases import Images
from stackwright.core.steps.names import plain
from stackwright.engines.buildah.progress import Progress as PodmanProgress
from stackwright.engines.buildah.words import containerfile
from stackwright.engines.buildkit.progress import Event, EventKind, Progress, Step, is_noise, shown
from stackwright.engines.buildkit.steps import own_steps
from stackwright.engines.docker import Docker
from stackwright.host.runner import Runner
from stackwright.host.site import archives, settings

STAGE = re.compile(r"\[(?:([a-z][\w.-]*) +)?\d+/\d+\] ")
"""How BuildKit names a step of a stage: `[final 2/5] RUN …`, and `[2/5] RUN …` where there is one stage."""


Told = Progress | PodmanProgress
"""What a builder says while it builds, gathered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    reference: str
    steps: tuple[Step, ...]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a build gets besides its recipe.

    ``proxies`` become BuildKit's predefined arguments, which stay out of the image, its history and the
    cache's keys; their values are in the environment and not on a command line. ``options``: which builder.
    ``labels`` are the site's, in addition to those of the recipe and of its key. ``name`` is that of an image
    which is not to take the place of the row's own. ``archives`` is the site's folder of sources.
    """

    images: Images
    archives: Path | None = None
    secrets: Sequence[Secret] = ()
    proxies: Sequence[tuple[str, str]] = ()
    labels: Sequence[tuple[str, str]] = ()
    options: Sequence[str] = ()
    name: str = ""

    def arguments(self) -> Iterator[str]:
        for image in self.images:
            yield from ("--build-arg", "=".join(image))
        for secret in self.secrets:
            yield from ("--secret", secret.argument)
        for name, _ in self.proxies:
            yield from ("--build-arg", name)
        yield from ("--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}")


def of_site(
    site: Site, images: Images, private: Path, os: str, *, options: Sequence[str] = (), name: str = "",
    a_copy: bool = False,
) -> Inputs:  # fmt: skip
    """Return what a build on a release of a distribution gets of a site. ``private`` receives its secrets.

    ``a_copy``: the site's mirror is one that keeps what it had on one day.
    """
    secrets = settings.site_secrets(private, site, distributions.known(os), a_copy=a_copy)
    return Inputs(
        images=images, secrets=secrets, proxies=site.proxies, labels=site.labels, options=options, name=name,
        archives=site.sources,
    )  # fmt: skip


def build(
    recipe: Recipe, folder: Path, inputs: Inputs, *, docker: Docker, runner: Runner,
    on_event: Callable[[Event], None], stage: tuple[str, str] | None = None,
) -> Built:  # fmt: skip
    """Solve the recipe. Raise BuildError with the step, its last lines and, where it is known, the cause.

    ``stage`` is one to end with instead of the row's image, and the reference to push it as with its cache.
    """
    context = folder / "context"
    write(recipe, context)
    archives.place(recipe, inputs.archives, context)
    target, name = stage or ("final", inputs.name or reference(recipe))
    labels = (*of_recipe(recipe), *inputs.labels)
    added = () if docker.builder else (word for pair in labels for word in ("--label", "=".join(pair)))
    kind = (
        ("--cache-to", "type=inline", "--push")
        if stage
        else (*added, *(() if inputs.name else docker.mark_words(name)))
    )
    given = (*_file(recipe, folder, labels, docker), *inputs.arguments())
    argv = docker.build(
        "--progress=rawjson", "--provenance=false", *inputs.options, *kind, *given,
        "--target", target, "--tag", name, context,
    )  # fmt: skip
    progress: Told = PodmanProgress(recipe=recipe) if docker.builder else Progress()
    log = folder / "build.log"
    if _solve(progress, argv, log, runner=runner, proxies=inputs.proxies, on_event=on_event):
        words = docker.build(*given, context) if docker.builder else ("docker", "build", *given, context)
        raise BuildError.of(_failure(recipe.id, progress, log, words))
    own = (
        progress.own()
        if isinstance(progress, PodmanProgress)
        else own_steps(progress.steps, dict(recipe.files))
    )
    return Built(reference=name, steps=own, log=log)


def _file(
    recipe: Recipe, folder: Path, labels: Sequence[tuple[str, str]], docker: Docker
) -> tuple[str | Path, ...]:
    """Words that name another Dockerfile than that of the context, for Podman's builder. It is next to the
    context, of which a build reads all files."""
    if not docker.builder:
        return ()
    file = folder / "Containerfile"
    file.write_text(containerfile(recipe.text("Dockerfile"), labels), encoding="utf-8")
    return ("--file", file)


def _solve(
    progress: Told,
    argv: Sequence[str],
    log: Path,
    *,
    runner: Runner,
    proxies: Sequence[tuple[str, str]],
    on_event: Callable[[Event], None],
) -> int:
    """Return the exit code. ``progress`` and the log receive what is built."""
    with log.open("w", encoding="utf-8", buffering=1) as file:  # by lines: it is read while it grows
        return runner.stream(
            argv, lambda line: _follow(progress.feed(line), file, on_event), env=dict(proxies)
        )


def _follow(events: Iterator[Event], file: TextIO, on_event: Callable[[Event], None]) -> None:
    for event in events:
        if event.kind is EventKind.LOG:
            file.write(f"{redact(event.text)}\n")
        elif not is_noise(event.step):
            took = f" {event.seconds:.1f} s" if event.kind in (EventKind.DONE, EventKind.FAILED) else ""
            file.write(f"--- {event.kind}{took}: {_with_text(event.step)}\n")
        on_event(event)


def _with_text(step: str) -> str:
    """Return a step's name for people, then what BuildKit calls it: its place and its whole text."""
    name = plain(step)
    return redact(f"{name}: {step}" if name else step)


def _failure(row: str, progress: Told, log: Path, words: Sequence[str | Path]) -> BuildFailure:
    """``words`` build it again, but for the stage. The log ends with that line as well."""
    step = progress.failed
    tail = step.tail if step else progress.trailer
    cause = known_cause([*tail, step.error if step else ""])
    stage = STAGE.match(step.name) if step else None
    advice = "read the log; finished steps are kept for the next run"
    if stage:
        again = (*words[:2], "--target", stage[1] or "final", *words[2:])
        line = redact(shlex.join(map(str, again)))
        advice = f"the cause is unknown; reproduce it, finished steps are kept: {line}"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"--- to reproduce it: {line}\n")
    return BuildFailure(
        row=row,
        step=shown(step.name) if step else "",
        message=_first_line(step, progress),
        cause=cause,
        tail=last_lines(tail),
        log=log,
        advice=advice,
        subject=subject(cause, tail),
    )


def _first_line(step: Step | None, progress: Told) -> str:
    if step:
        # BuildKit repeats the whole command before it prints the error.
        return step.error.splitlines()[0].rsplit("did not complete successfully: ")[-1]
    errors = [line for line in progress.trailer if line.upper().startswith("ERROR")]
    return re.sub(r"(?i)^ERROR: ", "", (errors or progress.trailer or ["the engine said nothing"])[0])
