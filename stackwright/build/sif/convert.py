"""Image to SIF: made under a temporary name, opened and compared, and only then given its own name."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stackwright.core.errors import ConvertError, DiskError, EngineError, StackwrightError
from stackwright.core.model.compression import DEFAULT, Compression
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer, remove_build
from stackwright.engines.docker import Docker, Mount
from stackwright.engines.gpu import GpuAccess
from stackwright.engines.sif.sign import Signer, file_sha256, sign
from stackwright.engines.sif.squashfs import FULL, WRITTEN, Squashing, Way, can, squash
from stackwright.host.disk import claimed
from stackwright.host.runner import Completed, Runner
from stackwright.probe.run import Witness

SMALL = 10**8
"""Bytes for what is not the file system: the skeleton, the answers of the engine."""

SIGNED_BY = "sif signed by"
"""Among the tools of a record: the head of the sha256 of the public key."""

SCRATCH = ".sif-"
TIMEOUT = 4 * 3600
"""Seconds; a conversion of 12 GB took 700 on two cores with gzip:9, and zstd:22 is ten times as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """``way`` is None where the file was not made of an image."""

    bytes: int
    sha256: str
    way: Way | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """How an image is converted: the methods to try, in this order, compression and signature of the file.

    Its disk is claimed in ``ledger`` (see disk.claimed), and announced by ``say``.
    """

    compression: Compression = DEFAULT
    signer: Signer | None = None
    ledger: Path | None = None
    say: Callable[[str], None] = lambda text: None
    ways: Sequence[Way] = tuple(Way)


ANY = Conversion()


def to_sif(
    reference: str, target: Path, *, docker: Docker, runner: Runner, apptainer: Apptainer, image_bytes: int,
    conversion: Conversion = ANY,
) -> Made:  # fmt: skip
    """Convert with the first method that works. ``target`` is replaced atomically.

    After ConvertError, DiskError and EngineError it is the old file.
    """
    found = engine.inspect(docker, reference)
    if found is None:
        raise EngineError("no such image", place=reference, hint="build.py build")
    with scratch_folder(target, "the conversion", docker, runner) as folder:
        task = Squashing(
            docker=docker, runner=runner, apptainer=apptainer, image=reference, found=found, folder=folder,
            compression=conversion.compression, timeout=TIMEOUT,
        )  # fmt: skip
        with _written(task, image_bytes, conversion) as way:
            wanted = found["Config"]["Labels"] or {}
            return finish(
                folder / WRITTEN, target, apptainer=apptainer, wanted=wanted, signer=conversion.signer,
                way=way,
            )  # fmt: skip


@contextlib.contextmanager
def _written(task: Squashing, image_bytes: int, conversion: Conversion) -> Iterator[Way]:
    """Yield the method that ``WRITTEN`` was made by; its disk is claimed until the block ends."""
    say = conversion.say
    for way in conversion.ways:
        if not can(task, way):
            continue
        need = needed(way, image_bytes, task.compression)
        what = f"the conversion (of the image {way})"
        with claimed(task.folder, need, what=what, ledger=conversion.ledger, say=say):
            if _by_archive(task) if way is Way.ARCHIVE else squash(task, way):
                yield way
                return
        say(f"converting the image {way} is not possible here; trying the next method")
    raise ConvertError("no way to convert it", place=task.image, hint="build.py doctor")


def needed(way: Way, image_bytes: int, compression: Compression) -> int:
    """Bytes at the peak: the SIF alone; by an archive that, the image's files, and the SIF twice."""
    most = compression.most(image_bytes) + SMALL
    return 2 * (image_bytes + most) if way is Way.ARCHIVE else most


@contextlib.contextmanager
def scratch_folder(target: Path, what: str, docker: Docker | None, runner: Runner) -> Iterator[Path]:
    """Make a folder next to ``target`` to build it in. A disk that gets full meanwhile is a DiskError."""
    beside = target.parent.resolve()
    scratch = ""
    try:
        beside.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(beside, docker, runner)
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=beside, ignore_cleanup_errors=True) as scratch:
            yield Path(scratch)
    except (StackwrightError, OSError) as error:
        if isinstance(error, StackwrightError) and scratch and error.place.startswith(scratch):
            error.place = str(target)  # readers never see another file
        if isinstance(error, DiskError) or not FULL.search(str(error)):
            raise
        said = error.cause if isinstance(error, StackwrightError) else str(error)
        raise DiskError(
            f"the disk was full before {what} ended ({said})",
            place=str(target.parent),
            hint="./build.py clean shows what can go",
        ) from error


def finish(
    unverified: Path,
    target: Path,
    *,
    apptainer: Apptainer,
    wanted: Mapping[str, str],
    signer: Signer | None = None,
    way: Way | None = None,
) -> Made:
    """Give a file its name, once it opens, has the labels and is signed, if it is to be."""
    if signer:
        _verify(unverified, labels(apptainer, unverified), wanted)
        sign(apptainer, unverified, signer)
        sha256 = file_sha256(unverified)
    else:
        with ThreadPoolExecutor(1) as beside:
            hashed = beside.submit(file_sha256, unverified)
            _verify(unverified, labels(apptainer, unverified), wanted)
            sha256 = hashed.result()
    made = Made(bytes=unverified.stat().st_size, sha256=sha256, way=way)
    unverified.replace(target)
    return made


def _by_archive(task: Squashing) -> bool:
    """Convert through a file that holds the whole image; that needs nothing of the engine."""
    scratch = task.folder
    archive = engine.save(task.docker, task.runner, task.image, scratch / "image.tar")
    # A cache would be of no use beyond this, and a user could not remove what a container's root left in it.
    environment = {"APPTAINER_TMPDIR": str(scratch), "APPTAINER_DISABLE_CACHE": "true"}
    task.apptainer.build(
        scratch / WRITTEN, f"docker-archive:{archive}", compression=task.compression, folders=(scratch,),
        env=environment, timeout=task.timeout,
    )  # fmt: skip
    archive.unlink()
    return True


def labels(apptainer: Apptainer, sif: Path) -> dict[str, str]:
    """Return the labels of a SIF; ConvertError when it cannot be opened."""
    return dict(apptainer.inspect(sif)["attributes"].get("labels") or {})


def described(apptainer: Apptainer, sif: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the labels of a SIF, and the scripts that it runs at its start. ConvertError when it cannot be
    opened.

    spython does not ask for the startscript.
    """
    attributes = apptainer.inspect(sif)["attributes"]
    done = apptainer("inspect", "--startscript", sif.resolve(), folders=(sif.resolve().parent,), timeout=120)
    if not done.ok:
        raise ConvertError(
            "its startscript cannot be read", place=str(sif), hint="build.py sif makes it anew"
        )
    scripts = {
        "runscript": str(attributes.get("runscript") or ""), "startscript": done.stdout,
        "environment": dict(attributes.get("environment") or {}),
    }  # fmt: skip
    return dict(attributes.get("labels") or {}), scripts


def execute(
    apptainer: Apptainer,
    sif: Path,
    argv: Sequence[str],
    *,
    mounts: Sequence[Mount],
    timeout: float,
    gpu: GpuAccess | None = None,
    user: str | None = None,
) -> Completed:
    """Run a program in the SIF for a probe, as the user who runs Stackwright: so it is on a cluster.

    ``user`` is who runs it where that is root.
    """
    return apptainer.exec(sif, tuple(argv), binds=tuple(mounts), timeout=timeout, gpu=gpu, user=user)


def witness(apptainer: Apptainer, sif: Path) -> Witness:
    return Witness(
        words=("--sif", sif, "--apptainer", apptainer.program),
        environment=apptainer.environment(sif.resolve().parent),
    )


def _verify(sif: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    lost = sorted(name for name, value in wanted.items() if found.get(name) != value)
    if lost:
        raise ConvertError(f"the SIF lost the labels {', '.join(lost)}", place=str(sif), hint="build.py sif")


def _remove_leftovers(folder: Path, docker: Docker | None, runner: Runner) -> None:
    """What a conversion that was killed left, and what still writes there.

    The caller holds the row's lock, so that none is running.
    """
    for path in folder.glob(f"{SCRATCH}*"):
        if docker is not None:
            engine.remove_users(docker, path)
        remove_build(path, runner)
