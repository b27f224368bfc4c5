"""Apptainer: the one on the PATH, else one in a small image of its own behind scripts/apptainer."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from stackwright.core.errors import ConvertError, EngineError
from stackwright.core.model.compression import DEFAULT, Compression
from stackwright.engines import docker as engine
from stackwright.engines import tool_image
from stackwright.engines.docker import Docker, Mount
from stackwright.engines.gpu import GpuAccess
from stackwright.engines.sif.layout import require_whole
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Completed, Runner
from stackwright.host.shipped import SCRIPTS

SHIM = SCRIPTS / "apptainer"
OVERLAY = "APPTAINER_OVERLAY"
"""The variable of the option --overlay."""
SUITE = "sid"
"""The only suite of Debian that has apptainer."""

PACKAGES = ("apptainer", "squashfs-tools", "squashfuse", "fuse2fs", "ca-certificates")
IMAGE = "stackwright/apptainer:1"

# spython runs "singularity" from the PATH of its process, so it gets one of its own. It is asked nothing
# else: what it builds, runs or starts may have failed, and it does not say so (test_apptainer.py).
_INSPECT = "import json, sys; from spython.main import Client; print(json.dumps(Client.inspect(sys.argv[1])))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Apptainer:
    """``native``: it is the host's own. The other one sees only ``folders``, and those of each call.

    ``overlay`` is a squashfs that every program is started with, on top of the SIF's files.
    """

    program: Path
    version: str
    native: bool
    runner: Runner = field(repr=False, compare=False)
    docker: Docker | None = None
    folders: tuple[Path, ...] = ()
    overlay: Path | None = None

    def __call__(
        self,
        *argv: str | Path,
        folders: tuple[Path, ...] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float | None = None,
        gpu: GpuAccess | None = None,
    ) -> Completed:
        """One command of apptainer, as it is. Code 124: no end within ``timeout`` seconds."""
        if self.native or self.docker is None:
            return self.runner([self.program, *argv], env=env, cwd=cwd, timeout=timeout)
        name = f"stackwright-apptainer-{uuid4().hex[:12]}"
        options = ("--name", name, *self.docker.label_words)
        settings = self.environment(*folders)
        settings["STACKWRIGHT_DOCKER_RUN"] = " ".join((*options, *(gpu.run_arguments() if gpu else ())))
        if timeout is not None:
            settings["STACKWRIGHT_TIMEOUT"] = f"{timeout:g}"
        patience = None if timeout is None else timeout + 30
        try:
            own = {**(env or {}), **settings}
            done = self.runner([self.program, *argv], env=own, cwd=cwd, timeout=patience)
        except BaseException:
            self._end(name)
            raise
        if done.returncode == engine.TIMED_OUT:
            self._end(name)
        return done

    def environment(self, *folders: Path) -> dict[str, str]:
        """Return what ``program`` needs to know where another program starts it."""
        layered = {OVERLAY: f"{self.overlay}:ro"} if self.overlay else {}
        if self.native or self.docker is None:
            return layered
        folders = (*folders, self.overlay.parent) if self.overlay else folders
        return {
            **layered,
            "STACKWRIGHT_DOCKER": " ".join(self.docker.command()),
            "STACKWRIGHT_APPTAINER_IMAGE": IMAGE,
            "STACKWRIGHT_BIND": ":".join(str(folder) for folder in (*self.folders, *folders)),
        }

    def _end(self, name: str) -> None:
        """The container outlives a client that was killed."""
        assert self.docker is not None
        self.runner(self.docker.command("rm", "--force", name), timeout=60)

    def exec(
        self,
        sif: Path,
        argv: tuple[str, ...],
        *,
        binds: tuple[Mount, ...] = (),
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        gpu: GpuAccess | None = None,
        user: str | None = None,
    ) -> Completed:
        """Run a program in the SIF, sealed off from the host (``--containall``) but for ``binds``.

        ``user``: runs it instead of root, where the caller is root.
        --no-privs: a host may deny root a capability, and apptainer then refuses to hand the others on.
        --no-eval: the values of ``env`` arrive as they are. --workdir: /tmp would else be 64 MiB of memory.
        """
        with tempfile.TemporaryDirectory(prefix="stackwright-") as scratch:
            sealed = ("--containall", "--no-privs", "--no-eval", "--workdir", scratch)
            words: tuple[str | Path, ...] = (
                "exec",
                *sealed,
                *_exec_options(binds, gpu),
                *(_security(user, Path(scratch)) if user not in (None, "0") and os.geteuid() == 0 else ()),
                sif.resolve(),
                *argv,
            )
            inside = {f"APPTAINERENV_{key}": value for key, value in (env or {}).items()}
            folders = (Path(scratch), sif.resolve().parent, *(bind.source for bind in binds))
            inside |= {OVERLAY: f"{self.overlay}:ro"} if self.overlay else {}
            return self(*words, folders=folders, env=inside, timeout=timeout, gpu=gpu)

    def inspect(self, sif: Path) -> dict[str, Any]:
        """spython's description of a SIF: ``attributes`` with ``labels``, ``environment``, ``runscript``.

        ConvertError where it cannot be opened, and where the file is cut short.
        """
        require_whole(sif)
        with tempfile.TemporaryDirectory(prefix="stackwright-") as folder:
            (Path(folder) / "singularity").symlink_to(self.program)
            env = {"PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
            env |= self.environment(sif.resolve().parent)
            done = self.runner([sys.executable, "-c", _INSPECT, str(sif.resolve())], env=env, timeout=120)
        return _described(done, sif)

    def build(
        self,
        target: Path,
        source: str,
        args: tuple[str, ...] = (),
        *,
        compression: Compression = DEFAULT,
        folders: tuple[Path, ...] = (),
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """``apptainer build``. ``folders`` are those that the source lies in; a failure is an error.

        Only the exit code shows a failure: an older file may be at ``target``.
        """
        words = ("build", "--force", *squashfs_arguments(compression), *args)
        seen = (target.resolve().parent, *folders)
        done = self(*words, target.resolve(), source, folders=seen, env=env, timeout=timeout)
        if not done.ok:
            raise ConvertError(last_line(done), place=str(target), hint="run the command above by hand")
        return done


def remove_build(folder: Path, runner: Runner) -> None:
    """A folder that a build may have worked in which was killed.

    Files of a native `apptainer build --fakeroot` belong to the subordinate ids of its user, who may remove
    them as root of a name space of their own only.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        runner(["unshare", "--map-auto", "--map-root-user", "rm", "-rf", folder])


def squashfs_arguments(compression: Compression) -> tuple[str, str]:
    """Options of `apptainer build`, whose own choice is gzip:9."""
    return ("--mksquashfs-args", " ".join(compression.options))


def _exec_options(binds: tuple[Mount, ...], gpu: GpuAccess | None) -> Iterator[str]:
    if gpu:
        yield "--nv"
    for bind in binds:
        yield from ("--bind", f"{bind.source}:{bind.target}:{'ro' if bind.read_only else 'rw'}")


def _security(user: str, scratch: Path) -> Iterator[str]:
    """Yield what makes root another user, who then writes to the folder for temporary files."""
    for path in (scratch, *(scratch / name for name in ("tmp", "var_tmp"))):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
    uid, _, gid = user.partition(":")
    yield from ("--security", f"uid:{uid}", "--security", f"gid:{gid or uid}")


def find(
    runner: Runner, docker: Docker | None, *, mirror: str | None = None, folders: tuple[Path, ...] = ()
) -> Apptainer:
    """Return the host's own apptainer, else the one in its image, which is made if it is not there (a
    minute)."""
    native = shutil.which("apptainer")
    if native and Path(native).resolve() != SHIM.resolve():
        done = runner([native, "--version"], timeout=30)
        if done.ok:
            return Apptainer(program=Path(native), version=_version(done), native=True, runner=runner)
    if docker is None:
        raise EngineError("no apptainer on the PATH, and no engine to run one in", hint=engine.BRING_UP)
    ensure(runner, docker, mirror=mirror)
    found = Apptainer(program=SHIM, version="", native=False, runner=runner, docker=docker, folders=folders)
    done = found("--version", timeout=60)
    if not done.ok:
        raise EngineError(last_line(done), place=IMAGE, hint=f"docker image rm {IMAGE}, and try again")
    return Apptainer(
        program=SHIM, version=_version(done), native=False, runner=runner, docker=docker, folders=folders
    )


def ensure(runner: Runner, docker: Docker, *, mirror: str | None = None) -> str:
    """Return the name of the image, made if it is not there."""
    wanted = tool_image.MadeImage(name=IMAGE, purpose="apptainer", suite=SUITE, packages=PACKAGES)
    tool_image.ensure(wanted, runner, docker, mirror=mirror)
    return IMAGE


def _described(done: Completed, sif: Path) -> dict[str, Any]:
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if not done.ok or not isinstance(document, dict) or "attributes" not in document:
        cause = f"cannot be read: {last_line(done)}"
        raise ConvertError(cause, place=str(sif), hint="build.py sif makes it anew")
    return document


def _version(done: Completed) -> str:
    return done.stdout.strip().removeprefix("apptainer version ")
