"""Image to SIF: made under a temporary name, opened and compared, and only then given its own name."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stackwright import host
from stackwright.engines import docker as engine
from stackwright.engines.apptainer import Apptainer
from stackwright.engines.docker import Docker, Mount
from stackwright.engines.gpu import GpuAccess
from stackwright.engines.squash import layers, squash
from stackwright.errors import ConvertError, DiskError, StackwrightError
from stackwright.runner import Completed, Runner
from stackwright.sign import Signer, file_sha256, sign

ROOM_IN_PLACE, ROOM_BY_ARCHIVE = 1.3, 2.7
"""Disk needed at the peak, in sizes of the image: the SIF twice; or its archive, its files and the SIF."""

FULL = re.compile(r"(?i)no space left on device|out of space on output filesystem")
"""What the kernel and mksquashfs say of a full disk."""

SCRATCH = ".sif-"
TIMEOUT = 3600
"""Seconds; a conversion of 12 GB took 700 on two cores with the slowest compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    bytes: int
    sha256: str


def to_sif(
    reference: str,
    target: Path,
    *,
    docker: Docker,
    runner: Runner,
    apptainer: Apptainer,
    image_bytes: int,
    signer: Signer | None = None,
) -> Made:
    """Convert; what lies under ``target`` is always whole. ConvertError, DiskError: it is the old file."""
    in_place = not apptainer.native and layers(docker, reference) is not None
    need = int(image_bytes * (ROOM_IN_PLACE if in_place else ROOM_BY_ARCHIVE))
    with scratch_for(target, need, "the conversion") as scratch:
        unverified = scratch / "image.sif"
        if not (in_place and squash(runner, docker, reference, unverified, timeout=TIMEOUT)):
            _by_archive(reference, unverified, docker=docker, runner=runner, apptainer=apptainer)
        found = engine.inspect(docker, reference)
        assert found is not None, "the image was saved a moment ago"
        wanted = found["Config"]["Labels"]
        return finish(unverified, target, apptainer=apptainer, wanted=wanted, signer=signer)


@contextlib.contextmanager
def scratch_for(target: Path, need: int, what: str) -> Iterator[Path]:
    """A folder beside ``target`` to make it in. DiskError where fewer than ``need`` bytes are free."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target.parent)
    _require_room(target, need, what)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=target.parent))
    try:
        yield scratch
    except (StackwrightError, OSError) as error:
        if not FULL.search(str(error)):
            raise
        said = error.cause if isinstance(error, StackwrightError) else str(error)
        raise DiskError(
            f"the disk was full before {what} ended ({said})",
            place=str(target.parent),
            hint="./build.py clean shows what can go",
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def finish(
    unverified: Path,
    target: Path,
    *,
    apptainer: Apptainer,
    wanted: Mapping[str, str],
    signer: Signer | None = None,
) -> Made:
    """Give a file its name, once it opens, has the labels and is signed, if it is to be."""
    _verify(unverified, labels(apptainer, unverified), wanted)
    if signer:
        sign(apptainer, unverified, signer)
    made = Made(bytes=unverified.stat().st_size, sha256=file_sha256(unverified))
    unverified.replace(target)
    return made


def _by_archive(reference: str, sif: Path, *, docker: Docker, runner: Runner, apptainer: Apptainer) -> None:
    """The way that needs no access to the engine's folders: through a file that holds the whole image."""
    scratch = sif.parent
    archive = engine.save(docker, runner, reference, scratch / "image.tar")
    environment = {"APPTAINER_TMPDIR": str(scratch), "APPTAINER_CACHEDIR": str(scratch / "cache")}
    source = f"docker-archive:{archive}"
    apptainer.build(sif, source, folders=(scratch,), env=environment, timeout=TIMEOUT)
    archive.unlink()


def labels(apptainer: Apptainer, sif: Path) -> dict[str, str]:
    """The labels of a SIF; ConvertError when it cannot be opened."""
    return dict(apptainer.inspect(sif)["attributes"].get("labels") or {})


def execute(
    apptainer: Apptainer,
    sif: Path,
    argv: Sequence[str],
    *,
    mounts: Sequence[Mount],
    timeout: float,
    gpu: GpuAccess | None = None,
) -> Completed:
    """Run a program in the SIF as the probes ask for it; the user is whoever starts it, as on a cluster."""
    return apptainer.exec(sif, tuple(argv), binds=tuple(mounts), timeout=timeout, gpu=gpu)


def _verify(sif: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    lost = sorted(name for name, value in wanted.items() if found.get(name) != value)
    if lost:
        raise ConvertError(f"the SIF lost the labels {', '.join(lost)}", place=str(sif), hint="build.py sif")


def _require_room(target: Path, need: int, what: str) -> None:
    free = host.free_disk(target.parent)
    if free < need:
        raise DiskError(
            f"{what} needs {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
            place=str(target.parent),
            hint="./build.py clean shows what can go",
        )


def _remove_leftovers(folder: Path) -> None:
    """What a conversion that was killed left. The caller holds the row's lock, so that none is running."""
    for path in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(path, ignore_errors=True)
