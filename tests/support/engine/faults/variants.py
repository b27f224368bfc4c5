"""Which faults share an image: a container with its probes takes seconds, and a fault a moment of it.

A check that is red in a shared image names each of its faults, and no check is red that is meant for none of
them. That every fault alone turns exactly its own check red is proven by ``make thorough``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faults.table import FAKE, FAULTS, Fault

TOGETHER = (
    ("host-key", "private-key", "private-key-of-root", "site-ca-in-bundle", "site-ca-local", "pip-cache",
     "apt-lists", "apt-archive", "pip-config", "apt-sources", "index-in-history", "site-in-a-deleted-file",
     "left-in-tmp", "stub-in-folder", "nvcc-in-runtime", "other-row-file", "no-program-to-start-with"),
    ("library-path", "proxy", "variables", "no-capabilities", "require-newer-cuda", "credentials", "settings",
     "entrypoint-and-command", "no-title", "other-version", "other-created",
     "other-pmix", "other-row", "other-provider", "other-stack", "other-user", "own-variable"),
    ("no-entrypoint", "no-require-cuda", "was-set-once", "stub-in-cache", "other-mpi", "other-horovod",
     "extra-package", "other-package", "other-gcc", "labels-and-folder", "root"),
    ("no-extension", "no-tini", "no-sshd", "no-rdma-provider", "no-ucx", "no-headers", "other-os",
     "other-libc", "added-package"),
    ("no-import", "lost-package", "programs-that-do-not-work"),
    ("provider-cut-short", "provider-without-its-library", "ucx-module-cut-short", "ucx-without-infiniband",
     "other-ucx", "no-pmix", "no-openmp", "unused-nccl", "addition-does-not-import",
     "addition-lacks-another", "addition-hides-a-program", "addition-at-startup", "other-user-module"),
    ("second-nccl", "second-cudart", "second-cudnn", "parts-that-are-gone"),
    ("torch-of-the-user", "horovod-before-ours", "addition-replaces-a-module",
     "addition-of-the-user"),
    ("compiled-from-another-source", "compiled-against-another-torch", "compiled-for-the-builder",
     "compiled-by-no-gcc"),
    ("changed-nccl", "changed-cudnn", "preloaded-cudart", "mpi-without-ucx", "user-without-name"),
    ("unresolved", "no-libmpi", "addition-unresolved", "no-pip", "addition-replaces-a-file"),
    ("old-abi", "no-mpi", "no-gloo", "static-nccl", "no-kernels", "compiled-for-one-gpu",
     "distributed-without-gloo", "distributed-of-other-nccl", "distributed-without-nccl",
     "mpi4py-of-another-mpi", "deepspeed-of-another-pytorch", "deepspeed-operator-does-not-load",
     "jax-built-with-newer-cudnn", "jax-without-its-backend", "jax-of-another-compiler", "ssh-for-one-user",
     "tool-with-another-page"),
    ("other-nccl", "no-cuda", "stub-on-path", "other-nvcc", "other-compiler", "no-patch",
     "cpu-of-the-builder", "other-metadata", "compiled-for-another-release",
     "no-name-for-a-stranger", "cache-of-one-user", "tool-for-everyone", "tool-without-token",
     "tool-prints-its-token", "tool-on-every-address"),
    ("no-nccl", "other-framework", "second-libmpi", "compiled-with-another-mpi", "jax-of-another-release"),
    ("other-cudart", "other-nccl-library", "other-cudnn"),
)  # fmt: skip
"""In the order in which they are planted. A fault that is not here has an image of its own.

No check of a shared image waits for another one that is red there.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The good image with some faults in it; it is named after the first."""

    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        return self.faults[0].name

    @property
    def red(self) -> frozenset[str]:
        return frozenset().union(*(fault.red for fault in self.faults))

    @property
    def servers(self) -> bool:
        return any(fault.servers for fault in self.faults)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The extension is compiled once, in all the ways that are asked for."""
        ways = " ".join(fault.extension for fault in self.faults if fault.extension)
        compiled = ("USER root", f"RUN {ways} {FAKE} extension", "USER train") if ways else ()
        return (*compiled, *(line for fault in self.faults for line in fault.instructions))


def variants(*, alone: bool) -> tuple[Variant, ...]:
    """Every fault in one of them; ``alone``: each in one of its own."""
    groups: Sequence[tuple[str, ...]] = () if alone else TOGETHER
    named = {fault.name: fault for fault in FAULTS}
    shared = {name for group in groups for name in group}
    return (
        *(Variant(faults=tuple(named[name] for name in group)) for group in groups),
        *(Variant(faults=(fault,)) for fault in FAULTS if fault.name not in shared),
    )
