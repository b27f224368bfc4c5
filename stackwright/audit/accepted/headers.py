"""The headers of a framework that Horovod includes, compiled by a release of gcc: syntax alone."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from packaging.version import Version

from stackwright.audit.accepted.combinations import Compile
from stackwright.audit.facts.index import Wheel, wheels
from stackwright.core.components import tensorflow, torch
from stackwright.core.components.table import BY_NAME
from stackwright.core.errors import SiteError
from stackwright.core.facts.distributions import as_numbers
from stackwright.host.runner import Runner
from stackwright.host.upstream import web

INCLUDED = {
    "torch": ("torch/extension.h", "torch/torch.h", "c10/cuda/CUDAException.h", "c10/cuda/CUDAGuard.h",
              "c10/cuda/CUDAStream.h"),
    "tensorflow": ("tensorflow/core/framework/common_shape_fns.h", "tensorflow/core/framework/op.h",
                   "tensorflow/core/framework/op_kernel.h", "tensorflow/core/framework/resource_mgr.h",
                   "tensorflow/core/framework/resource_var.h", "tensorflow/core/framework/shape_inference.h",
                   "tensorflow/core/kernels/training_op_helpers.h", "tensorflow/core/lib/hash/hash.h"),
}  # fmt: skip
"""What horovod 0.28.1, horovod/torch and horovod/tensorflow include, apart from XLA's headers."""

FOLDERS = {
    "torch": ("torch/include", "torch/include/torch/csrc/api/include"),
    "tensorflow": ("tensorflow/include",),
}

CUDA = {
    "11": (("nvidia-cuda-runtime-cu11", "nvidia/cuda_runtime/include"),
           ("nvidia-cuda-nvcc-cu11", "nvidia/cuda_nvcc/include")),
    "12": (("nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/include"),
           ("nvidia-cuda-nvcc-cu12", "nvidia/cuda_nvcc/include")),
    "13": (("nvidia-cuda-runtime", "nvidia/cu13/include"), ("nvidia-cuda-crt", "nvidia/cu13/include")),
}  # fmt: skip
"""By major release, the wheels of CUDA's own headers, which PyTorch's include."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilers:
    """``roots``: by release of gcc, the root of a system that has it. Others are looked for in this one."""

    roots: Mapping[str, Path]

    def command(self, gcc: str) -> Sequence[str]:
        if gcc in self.roots:
            return ("chroot", str(self.roots[gcc]), f"g++-{gcc}")
        found = shutil.which(f"g++-{gcc}")
        return (found,) if found else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Headers of wheels below ``folder``, which is also seen at ``folder`` inside the compilers' roots."""

    index: str
    folder: Path

    def of(self, project: str, version: str, inside: str) -> Path:
        """Return the folder with a wheel's headers; fetched once, and of the archive no more than these."""
        place = self.folder / f"{project}-{version}"
        if not (place / ".whole").exists():
            _unpack(web.archive(*_address(self.index, project, version)), inside, place)
            (place / ".whole").touch()
        return place


def _address(index: str, project: str, version: str) -> tuple[str, int]:
    found = [wheel for wheel in wheels(index, project) if _is(wheel, version)]
    if not found:
        raise SiteError(f"the index has no {project} {version}")
    return found[-1].url, found[-1].size


def _is(wheel: Wheel, version: str) -> bool:
    return not version or wheel.version == Version(version)


def _unpack(archive: ZipFile, inside: str, place: Path) -> None:
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        path = (place / member.filename).resolve()
        if member.filename.startswith(f"{inside}/") and path.is_relative_to(place.resolve()):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not member.is_dir():
                path.write_bytes(archive.read(member))


def failure(asked: Compile, compilers: Compilers, kept: Kept, runner: Runner) -> str | None:
    """Return the compiler's first error, or nothing; None where that gcc is not at hand."""
    command = compilers.command(asked.gcc)
    if not command:
        return None
    source = "".join(f"#include <{name}>\n" for name in INCLUDED[asked.name])
    done = runner(
        [*command, "-x", "c++", *_options(asked), "-fsyntax-only", "-w",
         *(word for folder in _folders(asked, kept) for word in ("-isystem", str(folder))), "-"],
        stdin=f"#define EIGEN_USE_THREADS\n{source}int main() {{}}\n", timeout=1200,
    )  # fmt: skip
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return "" if done.ok else (errors or [done.stderr[-200:] or "it ended without a word"])[0][:200]


def _options(asked: Compile) -> tuple[str, ...]:
    standard = max(
        (header.standard for header in BY_NAME[asked.name].headers
         if as_numbers(asked.version) >= as_numbers(header.since)), default=14,
    )  # fmt: skip
    new = {"torch": torch.NEW_ABI, "tensorflow": tensorflow.NEW_ABI}[asked.name]
    abi = int(as_numbers(asked.version) >= as_numbers(new))
    return f"-std=c++{standard}", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"


def _folders(asked: Compile, kept: Kept) -> list[Path]:
    inside = FOLDERS[asked.name][0]
    place = kept.of(asked.name, asked.version, inside)
    folders = [place / folder for folder in FOLDERS[asked.name]]
    if asked.name == "torch":
        found = torch.WHEELS.of(asked.version)
        major = (found.cuda if found else "12").split(".")[0]
        folders += [kept.of(project, "", folder) / folder for project, folder in CUDA[major]]
        folders.append(_python(kept))
    return folders


def _python(kept: Kept) -> Path:
    """Python's headers, copied to where the compilers' roots see them."""
    place = kept.folder / "python"
    if not place.exists():
        shutil.copytree(sysconfig.get_paths()["include"], place)
    return place
