"""The debian provider: a base made by mmdebstrap from the host's mirror, kept by suite and date."""

from __future__ import annotations

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from stackwright.core.errors import EngineError, SiteError
from stackwright.core.model.row import Stack
from stackwright.core.model.target import AMD64, Platform
from stackwright.core.resolve.bases import Images, reference
from stackwright.engines import emulation
from stackwright.engines.bases.tools import BaseTools
from stackwright.engines.docker import image_exists, mark
from stackwright.host.runner import Runner
from stackwright.host.upstream.mirror import read_release

DOCKERFILE = "FROM scratch\nADD base.tar /\nLABEL org.stackwright.provider=debian\n"

KEEP_NOTHING_OF_THE_SITE = (
    "rm -f $1/etc/apt/sources.list $1/etc/apt/sources.list.d/* $1/etc/resolv.conf $1/etc/hostname",
    "rm -rf $1/var/log/* $1/var/cache/ldconfig/aux-cache $1/var/lib/apt/lists/*",
)


def ensure(stack: Stack, means: BaseTools) -> Images:
    """Return the base image: that of the lock, or, where the mirror has moved on, today's.

    A mirror keeps only its last state, so that the locked one may be gone. The image's name then holds
    its real date, which ``say`` prints. SiteError without a mirror, or when it fails.
    """
    base = stack.base
    locked = reference(base.os, base.date, stack.platform)
    if _is_there(means, locked):
        return (("BASE_IMAGE", locked),)
    mirror = means.site.mirror
    if not mirror:
        raise SiteError(
            "no mirror of the distribution is known",
            hint="set STACKWRIGHT_APT_MIRROR to that of a Debian mirror",
        )
    now = read_release(mirror, base.suite)
    name = reference(base.os, now.date, stack.platform)
    if name != locked:
        means.say(
            f"{base.os}: the mirror moved on since the row was locked, from {base.release} of {base.date}"
            f" to {now.version} of {now.date}; ./build.py lock takes note of it"
        )
    if not _is_there(means, name):
        _make(base.suite, name, now.date, means, mirror, target=stack.platform)
        mark(means.docker, name)
    return (("BASE_IMAGE", name),)


def _is_there(means: BaseTools, name: str) -> bool:
    """Return whether the engine has it, marked for this project so that no other project's ``clean``
    removes it."""
    if not image_exists(means.docker, name):
        means.bring(name)
    return image_exists(means.docker, name) and mark(means.docker, name)


def _make(
    suite: str, name: str, date: str, means: BaseTools, mirror: str, *, target: Platform = AMD64
) -> None:
    """The same image on every machine, to its id: `docker import` would note the time of the import in it."""
    with tempfile.TemporaryDirectory(prefix="stackwright-base-") as folder:
        tar = Path(folder) / "base.tar"
        bootstrap(
            suite, tar, runner=means.runner, mirror=mirror, date=date, target=target,
            devices=not means.docker.builder,
        )  # fmt: skip
        (Path(folder) / "Dockerfile").write_text(DOCKERFILE)
        argument = f"SOURCE_DATE_EPOCH={epoch(date)}"
        words = ("--provenance=false", "--no-cache", "--build-arg", argument, *emulation.words(target))
        done = means.runner(means.docker.build("--progress=plain", *words, "--tag", name, folder))
        if not done.ok:
            cause = f"the base could not be made an image: {_last_error(done.stderr)}"
            raise EngineError(cause, place=name, hint="docker buildx version, and the engine's free disk")


def epoch(date: str) -> int:
    """Seconds since 1970 of a Release file's date, as in 20260912T075541Z."""
    return int(datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())


def bootstrap(
    suite: str, tar: Path, *, runner: Runner, mirror: str, date: str = "", target: Platform = AMD64,
    devices: bool = True,
) -> Path:  # fmt: skip
    """Return the root file system of a suite as a tar, by an ordinary user too. SiteError when it fails.

    With the ``date`` of the suite, no file is younger: the same packages make the same bytes. The packages'
    own scripts run as programs of ``target``. ``devices``: with the nodes in /dev, which Podman's builder
    leaves out where it sees that it cannot make them, and else fails at.
    """
    emulation.how(target)
    hooks = [f"--customize-hook={hook}" for hook in KEEP_NOTHING_OF_THE_SITE]
    options = ("--quiet", "--variant=minbase", "--include=ca-certificates", *_architecture(target), *hooks)
    options += () if devices else ("--skip=output/mknod",)
    env = {"SOURCE_DATE_EPOCH": str(epoch(date))} if date else None
    done = runner(["mmdebstrap", *options, suite, tar, mirror], env=env, timeout=900)
    if not done.ok:
        raise SiteError(
            f"mmdebstrap could not make {suite}: {_last_error(done.stderr)}",
            hint="scripts/engine.sh installs mmdebstrap; ./build.py doctor says which mirror is used",
        )
    return tar


def _architecture(target: Platform) -> tuple[str, ...]:
    """Return the option that names another architecture than the host's."""
    if emulation.is_native(target):
        return ()
    return (f"--architectures={target.architecture}", "--skip=check/qemu")  # which asks a program of its own


def _last_error(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"E:|.*error", line, re.IGNORECASE)]
    return (errors or lines or ["it said nothing"])[-1]
