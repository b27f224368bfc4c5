"""What is known of some sources: variables with which they compile their CUDA code, and what they do not say.

A source that is not here is compiled as it is. What a row gives as ``env`` goes before what is here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from stackwright.core.facts.provenance import Provenance, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """``environment`` are variables of its build, ``needs`` are requirements that it does not declare.

    ``other`` says that the index has another project under the name. ``ahead`` are names of variables by
    which it compiles CUDA code; without one of them it leaves that for when it is first used.
    """

    environment: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    other: str = ""
    ahead: str = ""
    fact: Provenance | None = None

    def later(self, environment: tuple[tuple[str, str], ...]) -> bool:
        """Tell whether it compiles its CUDA code when it is first used, so that none is in its files."""
        asked = (name for name, value in environment if value != "0")
        return bool(self.ahead) and not any(re.fullmatch(self.ahead, name) for name in asked)


SET_BY_US = re.compile(
    r"PATH|HOME|TMPDIR|WORK|OUT|CACHE|ASKED|SOURCE|PYTHON.*|PIP_.*|LD_.*|CC|CXX|HOST_CC|HOST_CXX|CUDAHOSTCXX"
    r"|CUDA_HOME|CUDA_ARCHES|ARCH_FLAGS|WHEEL_KEY|PYTORCH_NVCC|TORCH_CUDA_ARCH_LIST|OMPI_.*|MPICH_C.*|CCACHE_.*"
    r"|LDFLAGS|CPATH|LIBRARY_PATH|BASH_.*|ENV|SHELLOPTS|IFS|SOURCE_DATE_EPOCH|.*_PROXY"
)
"""Variables that scripts/build-distribution.sh sets, or that would change what it does."""


def _setup(release: str) -> Provenance:
    return read(f"setup.py of {release}", "2026-11-22")


def _forced(variable: str, release: str, value: str = "TRUE") -> Known:
    """Its setup.py looks for a GPU, or for a wheel of its own elsewhere, where it is not told otherwise."""
    return Known(environment=((variable, value),), needs=("packaging",), fact=_setup(release))


KNOWN: Mapping[str, Known] = {
    "apex": Known(
        other="the index has a web toolkit of that name; NVIDIA's Apex is on no index",
        fact=read("apex 0.9.10dev on the package index: its metadata", "2026-11-22"),
    ),
    "causal-conv1d": _forced("CAUSAL_CONV1D_FORCE_BUILD", "causal-conv1d 1.7.0"),
    # Without a GPU it would take itself to be on a machine without CUDA, and compile what it has for the CPU.
    "deepspeed": Known(
        environment=(("DS_ACCELERATOR", "cuda"),),
        ahead="DS_BUILD_.+",
        fact=read("deepspeed 0.19.8, setup.py and accelerator/real_accelerator.py", "2026-11-22"),
    ),
    "flash-attn": _forced("FLASH_ATTENTION_FORCE_BUILD", "flash-attn 2.8.3.post2"),
    "mamba-ssm": _forced("MAMBA_FORCE_BUILD", "mamba-ssm 2.3.2.post1"),
    "mpi4py": Known(
        needs=("cython>=3.0.1",),
        fact=read("mpi4py 4.1.2, conf/builder.py: get_requires_for_build_wheel", "2026-11-22"),
    ),
    **{
        name: Known(environment=(("FORCE_CUDA", "1"),), fact=_setup(f"{name} {release}"))
        for name, release in (
            ("torch-cluster", "1.6.3"),
            ("torch-scatter", "2.1.2"),
            ("torch-sparse", "0.6.18"),
            ("torch-spline-conv", "1.2.2"),
        )
    },
}


def of(name: str) -> Known:
    """Return what is known of a source."""
    return KNOWN.get(canonicalize_name(name), Known())
