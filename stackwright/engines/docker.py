"""Docker: found once, then passed on as a value. The SDK runs and inspects; the CLI builds and saves.

The SDK has no BuildKit (docker-py #2230), which is why a build goes through ``Docker.command``.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import requests
from docker import DockerClient
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.types import LogConfig
from docker.types import Mount as SdkMount

from stackwright.core.errors import EngineError
from stackwright.engines import kinds
from stackwright.engines.buildah.words import created_by, with_shell
from stackwright.engines.gpu import GpuAccess
from stackwright.host import owners
from stackwright.host.files import draft_of
from stackwright.host.runner import Completed, Runner
from stackwright.host.site.settings import docker_program

MOUNTS_IMAGES = 28
"""The first release with ``--mount type=image`` (docs.docker.com/engine/release-notes/28)."""

MADE_BY_US = "org.stackwright.pid"
"""Label of our containers: the process that started it, so that ``clean`` finds what a kill -9 left."""

NAMESPACE = "org.stackwright.pid-namespace"
"""Label of our containers: where that number names a process. In another namespace it names another one."""

PROJECT = "org.stackwright.host.project"
"""Label of our containers: the project that it works for (owners.py)."""

BRING_UP = "make engine, or scripts/engine.sh"
STREAMED_AT_A_TIME = 2**20
ALONE = "offline"
"""Host name of a container that has no network."""
TIMED_OUT, CANNOT_START, NOT_FOUND = 124, 126, 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """``program`` has buildx. ``host`` is the engine's address, which the SDK and the CLI are both given.

    ``project`` is the id of the project that uses the engine, or "". ``builder``: Podman answers, and this
    program builds for it; Docker's own has none.
    """

    program: str
    host: str
    version: str
    driver: str
    root: str
    project: str = ""
    builder: str = ""
    rootless: bool = False

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of each container that this process makes."""
        own = {MADE_BY_US: str(os.getpid()), NAMESPACE: pid_namespace()}
        return own | ({PROJECT: self.project} if self.project else {})

    @property
    def label_words(self) -> tuple[str, ...]:
        """Return the same as words of ``docker run``."""
        return tuple(word for name, text in self.labels.items() for word in ("--label", f"{name}={text}"))

    @property
    def mounts_images(self) -> bool:
        """Return whether a container can be shown the files of an image."""
        return bool(self.builder) or int(self.version.partition(".")[0]) >= MOUNTS_IMAGES

    @property
    def title(self) -> str:
        return f"{'Podman' if self.builder else 'Docker'} {self.version}"

    def mark_words(self, reference: str) -> tuple[str, ...]:
        """Return the words of a build that mark its image as used by the project."""
        return ("--tag", owners.mark(self.project, reference)) if self.project else ()

    def command(self, *words: str | Path) -> tuple[str, ...]:
        """Return the argv of a CLI call to this engine."""
        return (self.program, "--host", self.host, *(str(word) for word in words))

    def build(self, *words: str | Path) -> tuple[str, ...]:
        """Return the argv of a build by the engine's own builder, unless the words name another.

        The one that a person has chosen (`docker buildx use`) may have none of the engine's images.
        """
        if self.builder:
            return kinds.build(self.builder, *words)
        return self.command("buildx", "build", "--builder", "default", *words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount of the host's ``source``."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMount:
    """The files of an image, read-only, as its layers have them. Engines since ``MOUNTS_IMAGES`` can."""

    image: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One line of an image's history. ``size`` is in bytes, 0 for a line that only sets metadata."""

    created_by: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A container to be: the options of ``docker run``. ``shm`` is in bytes (None: 64 MiB).

    ``read_only``: its root, with a /tmp of memory.
    """

    image: str
    argv: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    mounts: tuple[Mount, ...] = ()
    images: tuple[ImageMount, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    workdir: str | None = None
    name: str | None = None
    shm: int | None = None
    network: bool = True
    privileged: bool = False
    gpu: GpuAccess | None = None
    read_only: bool = False


def pid_namespace() -> str:
    """Return the number of this process's namespace, out of "pid:[4026531836]"."""
    return re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))


def find(runner: Runner, environ: Mapping[str, str] = os.environ, *, project: str = "") -> Docker:
    """Return the engine that answers, if it is one that we can use."""
    program, lacking = "docker", None
    try:
        program = docker_program(runner, environ)
    except EngineError as error:
        lacking = error
    host = environ.get("DOCKER_HOST") or _context_host(runner, program)
    try:
        with _client(host) as client:
            info: dict[str, Any] = client.info()
    except DockerException as error:
        raise lacking or EngineError("no container engine answers", place=host, hint=BRING_UP) from error
    podman = kinds.is_podman(info)
    if lacking and not podman:
        raise lacking
    if podman:
        program = kinds.client(runner, environ)
    return Docker(
        program=program, host=host, version=kinds.checked_version(info, host), project=project,
        driver=str(info.get("Driver", "")), root=str(info.get("DockerRootDir", "")),
        builder=kinds.builder(environ) if podman else "", rootless=kinds.is_rootless(info),
    )  # fmt: skip


def _context_host(runner: Runner, program: str) -> str:
    """Return the address that the CLI would use: the SDK knows nothing of ``docker context``."""
    done = runner([program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], timeout=20)
    return done.stdout.strip() or "unix:///var/run/docker.sock"


@contextlib.contextmanager
def _client(host: str) -> Iterator[DockerClient]:
    environment = {**os.environ, "DOCKER_HOST": host}
    client = DockerClient.from_env(environment=environment, version="auto", timeout=120)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def connected(docker: Docker) -> Iterator[DockerClient]:
    """An SDK client; what the engine or the way to it does wrong becomes an EngineError."""
    try:
        with _client(docker.host) as client:
            yield client
    except (DockerException, requests.RequestException) as error:
        raise EngineError(str(error), place=docker.host, hint="scripts/engine.sh --check") from error


def inspect(docker: Docker, image: str) -> dict[str, Any] | None:
    """Return what ``docker image inspect`` returns for an image; None where there is none."""
    with connected(docker) as client, contextlib.suppress(NotFound):
        found = dict(client.images.get(image).attrs)
        if docker.builder:
            found["Config"] = with_shell(found["Config"], [line.created_by for line in layers(docker, image)])
        return found
    return None


def image_exists(docker: Docker, image: str) -> bool:
    return inspect(docker, image) is not None


def with_digest(docker: Docker, image: str) -> str:
    """Return the image's name and the digest that a registry knows it by; the name alone where none does."""
    digests = (inspect(docker, image) or {}).get("RepoDigests") or ()
    return "@".join((image, *(digest.partition("@")[2] for digest in digests[:1])))


def tag(docker: Docker, image: str, name: str) -> None:
    repository, _, version = name.rpartition(":")
    if not repository or "/" in version:
        repository, version = name, "latest"
    with connected(docker) as client:
        client.images.get(image).tag(repository, version)


def mark(docker: Docker, image: str) -> bool:
    """Mark an image as used by the project. False where the engine has no such image."""
    try:
        if docker.project:
            tag(docker, image, owners.mark(docker.project, image))
    except EngineError as error:
        if isinstance(error.__cause__, NotFound):
            return False
        raise
    return True


def remove(docker: Docker, image: str) -> None:
    """Take the tag away, and the image with its last tag. One that is not there is no error."""
    with connected(docker) as client, contextlib.suppress(NotFound):
        client.images.remove(image)


def layers(docker: Docker, image: str) -> tuple[Layer, ...]:
    """Return the image's history, oldest first."""
    with connected(docker) as client:
        lines = reversed(client.images.get(image).history())
    return tuple(Layer(created_by=created_by(line["CreatedBy"]), size=line["Size"]) for line in lines)


def size(history: Iterable[Layer]) -> int:
    """Bytes of an image's files. What an engine calls its size may be that of its packed layers."""
    return sum(layer.size for layer in history)


def save(docker: Docker, runner: Runner, image: str, path: Path) -> Path:
    """Write the image as a docker-archive. ``path`` appears only when it is whole."""
    with draft_of(path) as draft:
        done = runner(docker.command("image", "save", "--output", draft, image))
        if not done.ok:
            raise EngineError(done.stderr.strip() or "docker save failed", place=image, hint="check the disk")
    return path


@contextlib.contextmanager
def exported(docker: Docker, image: str) -> Iterator[Iterator[bytes]]:
    """A tar of the files that a container of the image would begin with; nothing is started.

    They are the image's, but for those that the engine makes in every container (see engines/stream.py).
    """
    job = Job(image=image, argv=("none",), workdir="/", network=False)  # its own folder would be made
    with connected(docker) as client, _created(docker, client, job) as container:
        # The SDK hands out bytes; its types say otherwise.
        yield cast("Iterator[bytes]", container.export(chunk_size=STREAMED_AT_A_TIME))


def run(docker: Docker, job: Job, *, timeout: float | None = None) -> Completed:
    """Run to the end. Code 124: no end within ``timeout`` seconds; 126 and 127: it did not start.

    The container is removed in any case, on Ctrl-C too.
    """
    with connected(docker) as client, _created(docker, client, job) as container:
        try:
            container.start()
        except APIError as error:
            return _not_started(job, error)
        try:
            code = int(container.wait(timeout=timeout)["StatusCode"])
        except requests.RequestException:  # ReadTimeout, and ConnectionError in older versions of the SDK
            with contextlib.suppress(APIError):  # it may have ended in this moment
                container.kill()
            code, late = TIMED_OUT, f"no end after {timeout:g} s\n"
        else:
            late = ""
        return Completed(
            argv=job.argv, returncode=code,
            stdout=_output(container, stdout=True), stderr=_output(container, stdout=False) + late,
        )  # fmt: skip


def end_own(docker: Docker) -> None:
    """Kill what runs for this process, so that its threads wait for nothing; each removes what it made."""
    own = (f"{MADE_BY_US}={os.getpid()}", f"{NAMESPACE}={pid_namespace()}")
    filters: dict[str, Any] = {"label": list(own)}
    with connected(docker) as client:
        for container in client.containers.list(filters=filters, ignore_removed=True):
            with contextlib.suppress(APIError):  # it may have ended in this moment
                container.kill()


def remove_users(docker: Docker, folder: Path) -> None:
    """Remove our containers that have this folder: those of a killed process continue to write there."""
    filters: dict[str, Any] = {"label": MADE_BY_US, "volume": str(folder)}
    with connected(docker) as client:
        for container in client.containers.list(all=True, filters=filters, ignore_removed=True):
            with contextlib.suppress(APIError):  # it may be about to go by itself
                container.remove(force=True, v=True)


@contextlib.contextmanager
def started(docker: Docker, job: Job) -> Iterator[str]:
    """The id of a container that runs until the block ends, for testinfra's ``docker://`` and ``execute``."""
    with connected(docker) as client, _created(docker, client, job) as container:
        try:
            container.start()
        except APIError as error:
            raise EngineError(_not_started(job, error).stderr, place=job.image) from error
        yield str(container.id)


def execute(docker: Docker, container: str, argv: Sequence[str], *, user: str = "") -> Completed:
    """Run a program in a container that is up."""
    with connected(docker) as client:
        code, output = client.containers.get(container).exec_run(list(argv), user=user, demux=True)
    parts = cast("tuple[bytes | None, bytes | None]", output)  # what demux=True returns
    out, err = ((part or b"").decode(errors="replace") for part in parts)
    return Completed(argv=tuple(argv), returncode=int(code or 0), stdout=out, stderr=err)


@contextlib.contextmanager
def _created(docker: Docker, client: DockerClient, job: Job) -> Iterator[Container]:
    container = client.containers.create(**_options(docker, job), labels=docker.labels)
    try:
        yield container
    finally:
        with contextlib.suppress(NotFound):
            container.remove(force=True, v=True)


def _options(docker: Docker, job: Job) -> dict[str, Any]:
    """Return the SDK's arguments.

    json-file, because the output is read back even if the engine logs elsewhere.
    """
    gpu = job.gpu.sdk_arguments() if job.gpu else {}
    environment = {**dict(job.env), **gpu.pop("environment", {})}
    mounts: list[dict[str, Any]] = [
        SdkMount(target=mount.target, source=str(mount.source), type="bind", read_only=mount.read_only)
        for mount in job.mounts
    ]
    mounts += [  # which the SDK's type refuses; Podman has no other images than read-only ones
        {"Type": "image", "Source": mount.image, "Target": mount.target, "ReadOnly": not docker.builder}
        for mount in job.images
    ]
    options: dict[str, Any] = {
        "image": job.image, "command": list(job.argv), "mounts": mounts, "environment": environment,
        "user": job.user, "working_dir": job.workdir, "name": job.name, "shm_size": job.shm,
        "network_mode": None if job.network else "none", "privileged": job.privileged,
        "log_config": LogConfig(type=LogConfig.types.JSON, config={}), **gpu,
    }  # fmt: skip
    if job.read_only:
        options |= {"read_only": True, "tmpfs": {"/tmp": "exec,mode=1777"}}  # noqa: S108 (in the container)
    if not job.network:  # else its own name resolves to nothing, and gloo asks for it
        options |= {"hostname": ALONE, "extra_hosts": {ALONE: "127.0.0.1"}}
    if job.entrypoint is not None:
        options["entrypoint"] = list(job.entrypoint)
    return {key: value for key, value in options.items() if value is not None}


def _not_started(job: Job, error: APIError) -> Completed:
    message = str(error.explanation or error)
    missing = "no such file or directory" in message or "executable file not found" in message
    code = NOT_FOUND if missing else CANNOT_START
    return Completed(argv=job.argv, returncode=code, stdout="", stderr=message)


def _output(container: Container, *, stdout: bool) -> str:
    return bytes(container.logs(stdout=stdout, stderr=not stdout)).decode(errors="replace")
