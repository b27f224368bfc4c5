"""A repository with a row of a few small downloads, and a network without a route to build it in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess, Popen

import small_repository

from stackwright.host.runner import Runner

ROW = "cuda12-torch"
STEP = """\
RUN --mount=type=secret,id=ca \\
    {mounts} \\
    began=$(date --date="10 minutes ago" +%s); \\
    {lines} \\
    find / -xdev -newermt "@$began" \\( -type l -o -writable \\) ! -path /proc ! -path /sys ! -path /dev \\
        -exec touch --no-dereference --date=@0 {{}} +
"""
"""As the templates of the rows: the site's settings as secrets, folders that outlive a build, one time."""
APT_MOUNTS = (
    "--mount=type=secret,id=apt-sources,target=/etc/apt/sources.list.d/debian.sources",
    "--mount=type=cache,id=apt-archives-debian-13,target=/var/cache/apt,sharing=locked",
    "--mount=type=cache,id=apt-lists-debian-13,target=/var/lib/apt,sharing=locked",
)
APT = (
    "ca=(); [ ! -s /run/secrets/ca ] || ca=(-o Acquire::https::CAInfo=/run/secrets/ca);",
    'apt-get "${ca[@]}" update;',
    'apt-get "${ca[@]}" install --yes --no-install-recommends PACKAGES;',
    "rm -rf /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/cache/ldconfig/aux-cache;",
)
PIP_MOUNTS = (
    "--mount=type=secret,id=pip-conf,target=/etc/pip.conf",
    "--mount=type=cache,id=pip,target=/root/.cache/pip",
    "--mount=type=bind,source=requirements.txt,target=/requirements.txt",
    "--mount=type=bind,source=horovod,target=/horovod",
)
PIP = (
    "[ ! -s /run/secrets/ca ] || export PIP_CERT=/run/secrets/ca; export PYTHONDONTWRITEBYTECODE=1;",
    "python3 -m venv --without-pip /opt/stack; pip=(python3 -m pip --python /opt/stack/bin/python);",
    r"sed -n '/^setuptools==/,/[^\\]$/p' /requirements.txt > /wheel.txt;",
    '"${pip[@]}" install --no-compile --no-deps --only-binary :all: --require-hashes -r /wheel.txt;',
    '"${pip[@]}" download --no-deps --no-build-isolation --no-binary :all: --require-hashes --dest /source',
    "    -r /horovod/source.txt;",
)


HEAD = """\
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE} AS final
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
"""
TAIL = "{% for name, value in labels %}LABEL {{ name }}={{ value | dockerfile_literal }}\n{% endfor %}"


def dockerfile(*, python: bool) -> str:
    """A template that downloads packages, or a wheel and a source as well."""
    steps = [(APT_MOUNTS, APT), (PIP_MOUNTS, PIP)] if python else [(APT_MOUNTS, APT)]
    joined = " \\\n    "
    written = (STEP.format(mounts=joined.join(mounts), lines=joined.join(lines)) for mounts, lines in steps)
    packages = "patch python3-venv python3-pip" if python else "patch"
    return HEAD + "".join(written).replace("PACKAGES", packages) + TAIL


def repository(folder: Path, *, python: bool = False) -> Path:
    root = small_repository.make(folder, (ROW,))
    (root / ".venv").symlink_to(small_repository.ROOT / ".venv")
    (root / "dockerfiles" / "Dockerfile.j2").write_text(dockerfile(python=python))
    return root


LOOPBACK_UP = """
import fcntl, socket, struct, time
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
print("up", flush=True)
time.sleep(10**6)
"""
"""What `ip link set lo up` does: the smallest Debian has no such program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A namespace of the network that has a loopback address alone; ``words`` begin a command in it."""

    words: tuple[str, ...]


@contextmanager
def cut_off(runner: Runner) -> Iterator[Cut]:
    with Popen(
        ["unshare", "--net", sys.executable, "-c", LOOPBACK_UP], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            cut = Cut(words=("nsenter", f"--net=/proc/{process.pid}/ns/net"))
            assert len(runner([*cut.words, "cat", "/proc/net/route"]).stdout.splitlines()) == 1, "its head"
            yield cut
        finally:
            process.kill()


def build_py(
    root: Path, *words: str | Path, environ: Mapping[str, str], within: Sequence[str] = ()
) -> CompletedProcess[str]:
    """A command line in the repository, or in a namespace."""
    return subprocess.run(
        [*within, sys.executable, "build.py", *map(str, words)],
        cwd=root, env=dict(environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
