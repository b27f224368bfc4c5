"""How an engine gives a GPU to a container: found out by asking it and by trying, never guessed.

Three ways exist, and an engine may have any of them (docs.docker.com, "GPU access"; the CDI specification):
a CDI device, ``--gpus`` (NVIDIA's hook is on the daemon's PATH), and an OCI runtime named ``nvidia``.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.types import DeviceRequest

from stackwright.core.model.target import CUDA
from stackwright.engines.kinds import is_podman

ALL = f"{CUDA.device}=all"
EMPTY_IMAGE = "stackwright/empty:1"
ABSENT_PROGRAM = "/there-is-no-program"


class Way(StrEnum):
    CDI = "cdi"
    GPUS = "gpus"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """``detail`` says what was seen, for people."""

    way: Way
    detail: str

    def run_arguments(self) -> tuple[str, ...]:
        """Options of ``docker run``, as a person would type them."""
        return {
            Way.CDI: ("--device", ALL),
            Way.GPUS: ("--gpus", "all"),
            Way.RUNTIME: ("--runtime", CUDA.runtime, "--env", f"{CUDA.visible}=all"),
        }[self.way]

    def sdk_arguments(self) -> dict[str, Any]:
        """Return the same for the SDK's ``containers.create``."""
        ways: dict[Way, dict[str, Any]] = {
            Way.CDI: {"device_requests": [DeviceRequest(driver="cdi", device_ids=[ALL])]},
            Way.GPUS: {"device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])]},
            Way.RUNTIME: {"runtime": CUDA.runtime, "environment": {CUDA.visible: "all"}},
        }
        return ways[self.way]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoGpu:
    """Why there is none, for each way that was tried."""

    reason: str


def look_for_gpu(client: DockerClient) -> GpuAccess | NoGpu:
    """Return the first way that this engine accepts, in the order CDI, ``--gpus``, runtime."""
    info: dict[str, Any] = client.info()
    image = _empty_image(client)
    reasons: list[str] = []
    for way in Way:
        reason = _announced(way, info)
        if reason is None:
            access = GpuAccess(way=way, detail=f"engine {info.get('ServerVersion')}")
            reason = _try(client, image, access)
            if reason is None:
                return access
        reasons.append(f"{way}: {reason}")
    return NoGpu(reason=f"the engine gives containers no GPU ({'; '.join(reasons)})")


def _announced(way: Way, info: dict[str, Any]) -> str | None:
    """Return why a trial would be in vain, or None. Engines before 28.2 do not list CDI devices.

    Podman knows CDI alone, lists nothing, and starts the container all the same where asked in another way.
    """
    if is_podman(info):
        return None if way is Way.CDI else "Podman gives devices by CDI alone"
    if way is Way.RUNTIME and CUDA.runtime not in info.get("Runtimes", {}):
        return f"the engine has no runtime named {CUDA.runtime}"
    if way is Way.CDI:
        if not info.get("CDISpecDirs"):
            return "the engine reads no CDI specifications"
        devices = info.get("DiscoveredDevices")
        if devices is not None and not any(d.get("ID", "").startswith(f"{CUDA.device}=") for d in devices):
            return f"no device {CUDA.device} in {', '.join(info['CDISpecDirs'])}"
    return None


def _try(client: DockerClient, image: str, access: GpuAccess) -> str | None:
    """Start a container that holds no program: the engine must fail on that, and on nothing before it.

    The device is asked for, its hooks run and its files are mounted before the program is looked up.
    """
    asked = access.sdk_arguments()
    try:
        container = client.containers.create(image, [ABSENT_PROGRAM], network_mode="none", **asked)
    except APIError as error:  # Podman looks the device up here
        return _last_line(error)
    try:
        container.start()
    except APIError as error:
        return None if ABSENT_PROGRAM in str(error.explanation or error) else _last_line(error)
    finally:
        with contextlib.suppress(NotFound):
            container.remove(force=True, v=True)
    return "the trial container ran a program that it does not have"


def _last_line(error: APIError) -> str:
    return str(error.explanation or error).strip().splitlines()[-1]


def _empty_image(client: DockerClient) -> str:
    """An image of one empty folder, made here, because no registry may be there to pull one from."""
    with contextlib.suppress(NotFound):
        client.images.get(EMPTY_IMAGE)
        return EMPTY_IMAGE
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("tmp")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    repository, version = EMPTY_IMAGE.split(":")
    client.api.import_image_from_data(buffer.getvalue(), repository=repository, tag=version)
    return EMPTY_IMAGE
