"""Definition file to SIF, as an ordinary user; without Docker where the host has an apptainer of its own."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stackwright.build.sif.convert import scratch_folder
from stackwright.core.errors import BuildError, SiteError
from stackwright.core.facts import distributions
from stackwright.core.facts.build_failures import BuildFailure, known_cause, last_lines
from stackwright.core.model.compression import DEFAULT, Compression
from stackwright.core.model.labels import PROVIDER
from stackwright.core.model.row import ProviderName, Recipe, Stack
from stackwright.core.model.site import Site
from stackwright.core.render.definition import file_name
from stackwright.core.render.dockerfile import write
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import IMAGE, Apptainer, squashfs_arguments
from stackwright.engines.bases.debian import bootstrap
from stackwright.engines.bases.table import ENSURE
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.engines.sif.docker_archive import write_archive
from stackwright.host.disk import claimed, require
from stackwright.host.runner import Completed, Runner
from stackwright.host.shipped import SCRIPTS
from stackwright.host.site import archives
from stackwright.host.site import settings as host

SCRIPT = SCRIPTS / "build-definition.sh"
NEEDS = 30 * 10**9
"""Bytes at the peak, when the last stage is packed: Apptainer keeps the files of all stages until the end.

24 GB were measured for cuda12-torch; other frameworks are up to 6 GB larger (an estimate).
"""

WHAT = "building from a definition file"
TIMEOUT = 4 * 3600
OF_APPTAINER = re.compile(r"INFO: |WARNING: |FATAL: +While performing build|\+ |.* warn rootless\{")
"""Progress of Apptainer: lines that no program of the build printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """What builds: an apptainer of the host, or one that runs in ``docker``; and the site's settings."""

    apptainer: Apptainer
    runner: Runner
    docker: Docker | None
    site: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Bytes that a build may need; they are claimed in ``ledger``, and announced by ``say``."""

    needs: int = NEEDS
    ledger: Path | None = None
    say: Callable[[str], None] = lambda text: None


@contextlib.contextmanager
def built(
    stack: Stack,
    recipe: Recipe,
    target: Path,
    builder: Builder,
    disk: Disk,
    *,
    compression: Compression = DEFAULT,
) -> Iterator[Path]:
    """Build as an ordinary user: a SIF next to ``target``, gone after the block unless ``finish`` names it.

    ``target`` itself is not touched; the log is next to it. Raises BuildError, DiskError, SiteError.
    """
    docker, site = builder.docker, builder.site
    if not builder.apptainer.native:
        assert docker is not None, "an apptainer that is not native runs in it"
        require(Path(docker.root), disk.needs, WHAT)
    with (
        scratch_folder(target, WHAT, docker, builder.runner) as scratch,
        claimed(scratch, disk.needs, what=WHAT, ledger=disk.ledger, say=disk.say),
    ):
        context, sif = scratch / "context", scratch / "built.sif"
        lay_out(recipe, context, site, stack)
        arguments = base_arguments(stack, context, docker=docker, runner=builder.runner, site=site)
        name = file_name(stack)
        words = (*_options(arguments, compression), name)
        if builder.apptainer.native:
            done = _natively(builder.apptainer, context, sif, words)
        else:
            assert docker is not None
            done = _in_container(docker, site, context, sif, words)
        log = target.with_suffix(".log")
        log.write_text(done.stdout + done.stderr)
        if not done.ok:
            raise BuildError.of(_failure(stack.id, name, done, log))
        shutil.rmtree(context)
        yield sif


def lay_out(recipe: Recipe, context: Path, site: Site, stack: Stack) -> None:
    """The recipe's folder, and the site's settings in it, under the names that %post looks for.

    What apt and pip read as other users than the folder's owner may be read by all; the folder above may not.
    """
    write(recipe, context)
    archives.place(recipe, site.sources, context)
    host.site_secrets(context, site, distributions.known(stack.os))
    context.chmod(0o755)
    if (context / "ca").exists():
        (context / "ca").chmod(0o644)


def base_arguments(
    stack: Stack, context: Path, *, docker: Docker | None, runner: Runner, site: Site
) -> tuple[str, ...]:
    """Put the images that the file begins with into its folder, and name them: ``NAME=VALUE``.

    Nothing is put there where Apptainer is to fetch them itself. The paths are relative, because they end up
    in the image's labels.
    """
    found: dict[str, str] = {}
    if docker is not None:
        means = BaseTools(docker=docker, runner=runner, site=site, say=lambda text: None)
        for argument, image in ENSURE[stack.provider](stack, means):
            archive = context / f"{argument.lower()}.tar"
            engine.save(docker, runner, image, archive)
            archive.chmod(0o644)
            found[argument] = archive.name
    elif stack.provider is ProviderName.DEBIAN:
        if not site.mirror:
            raise SiteError("no mirror of the distribution is known", hint="set STACKWRIGHT_APT_MIRROR")
        _debian_archive(stack, context / "base_image.tar", runner=runner, mirror=site.mirror)
        found["BASE_IMAGE"] = "base_image.tar"
    if not found:
        return ()
    return ("BOOTSTRAP=docker-archive", *(f"{name}={archive}" for name, archive in found.items()))


def _debian_archive(stack: Stack, target: Path, *, runner: Runner, mirror: str) -> None:
    tar = bootstrap(
        stack.base.suite, target.with_name("layer.tar"), runner=runner, mirror=mirror, target=stack.platform
    )
    settings = {
        "architecture": stack.platform.architecture,
        "os": stack.platform.os,
        "created": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "config": {"Labels": {PROVIDER: ProviderName.DEBIAN}},
    }
    with tar.open("rb") as layer, target.open("wb") as archive:
        write_archive(archive, layer, settings, "stackwright/base:1")
    tar.unlink()


def _options(arguments: Sequence[str], compression: Compression) -> tuple[str, ...]:
    given = (word for argument in arguments for word in ("--build-arg", argument))
    return ("--force", *squashfs_arguments(compression), *given)


def _natively(apptainer: Apptainer, context: Path, sif: Path, words: Sequence[str]) -> Completed:
    *options, definition = words
    argv: list[str | Path] = [apptainer.program, "build", "--fakeroot", "--bind", f"{context}:/mnt"]
    # The copies of the base have no use beyond this build, and its files are as large as three images.
    environment = {"APPTAINER_TMPDIR": str(sif.parent), "APPTAINER_DISABLE_CACHE": "true"}
    return apptainer.runner([*argv, *options, sif, definition], cwd=context, env=environment, timeout=TIMEOUT)


def _in_container(docker: Docker, site: Site, context: Path, sif: Path, words: Sequence[str]) -> Completed:
    script = "/build-definition.sh"
    folder = str(sif.parent)
    job = Job(
        image=IMAGE,
        argv=("bash", script, str(context), str(sif), *words),
        mounts=(
            Mount(source=SCRIPT, target=script),
            Mount(source=sif.parent, target=folder, read_only=False),
        ),
        env=(("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), *site.proxies),
        privileged=True,
    )
    return engine.run(docker, job, timeout=TIMEOUT)


def _failure(row: str, definition: str, done: Completed, log: Path) -> BuildFailure:
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    shown = [line for line in lines if not OF_APPTAINER.match(line)]
    return BuildFailure(
        row=row,
        step=definition,
        message=(shown or lines or ["it said nothing"])[-1],
        cause=known_cause(lines),
        tail=last_lines(shown or lines),
        log=log,
        advice="read the log",
    )
