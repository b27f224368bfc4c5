"""The configuration of a row's image, without its labels: what the templates write, as values. Pure.

dockerfiles/ and singularity/ write the same once more, in their own notation: tests/golden compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackwright.core.facts import distributions
from stackwright.core.model.row import Flavour, ProviderName, Stack
from stackwright.core.model.target import CUDA
from stackwright.core.resolve.bases import PROVIDERS

VENV = "/opt/stack"
USER = "train"
FOLDER = "/workspace"
SHELL = ("/bin/bash", "-euo", "pipefail", "-c")
INIT = "/usr/bin/tini"
HOME = f"/home/{USER}"
WITH_HOME = "/usr/local/bin/with-home"
ENTRYPOINT = (INIT, "-g", "--", WITH_HOME)
COMMAND = ("/bin/bash",)
SSH_SERVER = "/usr/local/bin/sshd-as-user"

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What BuildKit and Apptainer take for $PATH where a base sets none, and what Ubuntu's image sets."""

OF_BASE: Mapping[str, tuple[str, ...]] = {
    ProviderName.DEBIAN: (),
    ProviderName.NVIDIA: ("org.opencontainers.image.ref.name",),
}
"""Labels that a provider's base brings, and that say nothing of the row (Ubuntu's image on Docker Hub)."""

STARTSCRIPT = (f'exec {SSH_SERVER} "$@"',)
"""Lines of a definition file; comments are left out."""


def environment(stack: Stack) -> dict[str, str]:
    """Return every variable that the image sets."""
    return {"LANG": "C.UTF-8", **_last_step(stack), **_own(stack)}


def environment_of_sif(stack: Stack) -> dict[str, str]:
    """Return the same for a SIF, where the home is that of Apptainer's user."""
    return {name: value for name, value in environment(stack).items() if name != "HOME"}


def user_base(stack: Stack) -> str:
    """Return the folder of the user's own packages, below the home: of each row its own."""
    return f"/.local/stackwright/{stack.id}"


def history(stack: Stack) -> tuple[str, ...]:
    """Return the instructions ENV as an image's history has them, each with all that it sets."""
    last, own = (
        " ".join(f"{name}={value}" for name, value in step.items())
        for step in (_last_step(stack), _own(stack))
    )
    return ("ENV LANG=C.UTF-8", f"ENV {last}", *((f"ENV {own}",) if own else ()))


def _own(stack: Stack) -> dict[str, str]:
    return {variable.name: variable.value for variable in stack.env}


def _last_step(stack: Stack) -> dict[str, str]:
    return {
        "PATH": f"{VENV}/bin:{_cuda(stack)}{PATH}",
        "VIRTUAL_ENV": VENV,
        "HOME": HOME,
        **CUDA.environment(require_cuda(stack.cuda_runtime or stack.cuda)),
    }


def _cuda(stack: Stack) -> str:
    """The compiler's folder on the PATH, where a toolkit was copied into a devel image as a whole."""
    provider = PROVIDERS[stack.provider]
    if stack.flavour is not Flavour.DEVEL or not provider.copies(stack):
        return ""
    return ("/opt/cuda" if stack.lock.toolchain else provider.cuda_home) + "/bin:"


def require_cuda(cuda: str) -> str:
    """NVIDIA_REQUIRE_CUDA: any driver that runs a minor release of this major one."""
    major = cuda.split(".")[0]
    return f"cuda>={major}.0,driver>={dict(distributions.DRIVER_FLOOR)[major]}"


def user(stack: Stack) -> str:
    """Return who a container of the image runs as, where nothing else is asked for."""
    return stack.user or USER


def entrypoint(stack: Stack) -> tuple[str, ...]:
    """Return the words that start the command: the init, and what the row puts between both."""
    return (*ENTRYPOINT, *stack.entrypoint)


def runscript(stack: Stack) -> tuple[str, ...]:
    """Return the lines of a definition file's runscript; comments are left out."""
    own = "".join(f"{word} " for word in stack.entrypoint)
    return ('if [ "$#" -eq 0 ]; then set -- /bin/bash; fi', f'exec {INIT} -s -g -- {WITH_HOME} {own}"$@"')


def settings(stack: Stack) -> dict[str, Any]:
    """Return what Docker's description of the image has under Config, but for the labels."""
    ports: dict[str, dict[str, Any]] = {port: {} for port in stack.exposed}
    return {
        "Env": [f"{name}={value}" for name, value in environment(stack).items()],
        "Entrypoint": list(entrypoint(stack)),
        "Cmd": list(COMMAND),
        "User": user(stack),
        "WorkingDir": FOLDER,
        "Shell": list(SHELL),
        **({"ExposedPorts": ports} if ports else {}),
    }
