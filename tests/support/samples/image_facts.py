"""A row, and the facts of an image that is exactly that row: what tests of checks start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attack_facts import attack
from rank_facts import collective
from tool_facts import TOOL, served

from stackwright.core.benchmarks.nccl_tests import PROGRAMS
from stackwright.core.checks.judge import verify
from stackwright.core.checks.stranger import first_run
from stackwright.core.checks.tables.link import MPI_LIBRARY
from stackwright.core.model.added.distributions import Added, Compiled
from stackwright.core.model.labels import KEY, PROVIDER, VERSION
from stackwright.core.model.row import Base, Flavour, Lock, Mpi, Package, ProviderName, Stack
from stackwright.core.render import configuration, dockerfile
from stackwright.core.render.dockerfile import declared

SITE = "/opt/stack/lib/python3.13/site-packages"
NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
CUDART = f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12"
CUDNN = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"
PTXAS = f"{SITE}/nvidia/cuda_nvcc/bin/ptxas"
EXTENSION = f"{SITE}/horovod/torch/mpi_lib_v2.cpython-313-x86_64-linux-gnu.so"
LAYERS = {"mpi4py": "4.1.2", "deepspeed": "0.19.8", "jax": "0.12.0.1"}
COMMUNICATION = (("horovod", "0.28.1"), ("torch_distributed", "2.6.0"), *LAYERS.items())
PACKAGES = {
    **LAYERS,
    **dict.fromkeys(("jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"), "0.12.0.1"),
    "nvidia-cuda-nvcc-cu12": "12.4.131",
    "torch": "2.6.0", "nvidia-nccl-cu12": "2.21.5", "typing-extensions": "4.16.0", "einops": "0.8.2",
    "native": "1.0", "jupyterlab": "4.6.6",
}  # fmt: skip


COMPILED = {"absent": None, "error": None, "seconds": 8.1}


def stack() -> Stack:
    packages = {"gcc-13": "13.3.0-16", "libfabric1": "2.1.0-1.1", "python3.13": "3.13.5-2"}
    system = tuple(Package(name=name, version=version) for name, version in packages.items())
    base = Base(os="debian-13", suite="trixie", release="13.7", date="", digest="", packages=system)
    locked = tuple(Package(name=name, version=version) for name, version in PACKAGES.items())
    added = tuple(package for package in locked if package.name == "einops")
    compiled = tuple(package for package in locked if package.name == "native")
    return Stack(
        id="cuda12-torch",
        provider=ProviderName.DEBIAN,
        os="debian-13",
        base=base,
        python="3.13.5",
        cuda="12.4",
        cuda_runtime="12.4.127",
        cudnn="9.1.0.70",
        nccl="2.21.5",
        nccl_code=22105,
        gcc="13.3.0",
        mpi=Mpi.of("openmpi", "5.0.7"),
        communication=COMMUNICATION,
        frameworks=(("torch", "2.6.0"),),
        gpu_arch=("7.0", "8.0", "9.0"),
        flavour=Flavour.RUNTIME,
        test_on_gpu=False,
        patches=("cxx17.patch",),
        lock=Lock(
            row="cuda12-torch", request="", base=base, packages=locked, added=added, text="", sha256="0" * 64,
            compiled=compiled, sources=(("native", "c0" * 32),), needs=(("native", ("torch",)),),
        ),
        pip=tuple(Added(name=package.name, version=package.version) for package in added),
        compiled=(
            Compiled(
                name="native", version="1.0", sha256="c0" * 32, environment=(("FORCE_CUDA", "1"),),
                needs=("torch", "typing-extensions"),
            ),
        ),
        apt=(Package(name="git", version="1:2.47.3-0+deb13u1"),),
        tools=(TOOL,), plugin="1.21.1", nccl_tests="2.19.6",
    )  # fmt: skip


def labels(row: Stack) -> dict[str, str]:
    added = {PROVIDER: row.provider, KEY: "5e" * 32, VERSION: "5e" * 6}
    return added | dict(dockerfile.labels(row))


def files() -> dict[str, Any]:
    names = ("pip_cache", "pip_config", "apt_archives", "apt_lists", "apt_proxy", "apt_sources", "temporary")
    return {
        "outside": True, "uid": 0, "unreadable": [], "private_keys": [], "host_keys": [], "nvcc": [],
        "files": 34201,
        "authorities": {"bundle": "/etc/ssl/ca.crt", "count": 150, "extra": [], "local": []},
        "leftovers": {name: [] for name in names}, "cuda_libraries": [NCCL, CUDART, CUDNN],
    }  # fmt: skip


def ledger() -> dict[str, Any]:
    owners = {"package": 14108, "wheel": 16433, "byte-code": 5887, "declared": 1483, "folder": 1917}
    return {
        "names": 39898, "owners": owners, "problems": {}, "counts": {}, "credentials": [], "differs": [],
        "parts": {"wheel torch-2.6.0": "0" * 64},
    }  # fmt: skip


def system(row: Stack) -> dict[str, Any]:
    packages = {package.name: package.version for package in (*row.base.packages, *row.apt)}
    programs = dict.fromkeys(("gcc", "g++", "mpirun", "sshd", "ssh", "tini"), "/usr/bin/program")
    return {
        "os": {"ID": "debian", "VERSION_ID": "13", "VERSION_CODENAME": "trixie", "debian_version": "13.7"},
        "compiled": None, "name_service": None, "ssh": {"client": None, "server": None}, "init": None,
        "user": {"uid": 1000, "gid": 1000, "name": "train", "home": "/home/train"},
        "python": {"version": "3.13.5"}, "gcc": "13.3.0", "g++": "13.3.0", "nvcc": None, "headers": True,
        "mpirun": "mpirun (Open MPI) 5.0.7\n", "programs": programs, "row": json.dumps(declared(row)),
        "entrypoint": (*row.entrypoint, None)[0],
        "environment": configuration.environment(row) | {"HOME": "/home/train"},
        "distribution_packages": {**packages, "bash": "5.2-1"},
        "python_packages": {**PACKAGES, "horovod": "0.28.1", "pip": "25.1.1"},
        "driver_library": {"reachable": [], "driver": False},
        "fabric": {
            "providers": ["libmlx5-rdmav34.so"], "ucx": ["libucp.so.0"], "ibverbs": True, "drivers": ["mlx5"],
        },
    }  # fmt: skip


def link() -> dict[str, Any]:
    mapped = {"libnccl": [NCCL], "libcudart": [CUDART], "libcudnn": [CUDNN]}
    there = {"path": EXTENSION, "error": None}
    return {
        "modules": {
            "torch": {
                "error": None, "version": "2.6.0+cu124", "cxx11_abi": False, "mapped": mapped,
                "file": f"{SITE}/torch/__init__.py",
            },
            "horovod.torch": {
                "error": None, "version": None, "mapped": {**mapped, "libmpi": ["/usr/lib/libmpi.so.40"]},
                "file": f"{SITE}/horovod/torch/__init__.py", "extension": there,
            },
            "mpi4py.MPI": {
                "error": None, "version": None, "mapped": {"libmpi": ["/usr/lib/libmpi.so.40"]},
                "file": f"{SITE}/mpi4py/MPI.so",
            },
            "deepspeed": {
                "error": None, "version": "0.19.8", "mapped": mapped, "file": f"{SITE}/deepspeed/__init__.py",
            },
            "jax": {
                "error": None, "version": "0.12.0.1", "mapped": mapped, "file": f"{SITE}/jax/__init__.py",
            },
        },
        "libraries": {
            EXTENSION: {
                "module": "horovod.torch", "needed": ["libmpi.so.40", "libnccl.so.2", "libcudart.so.12"],
                "undefined": ["cudaMemcpyAsync", "ncclAllReduce"], "unresolved": ["libcuda.so.1"],
                "runpath": f"{SITE}/nvidia/nccl/lib", "new_abi": 0, "old_abi": 34,
                "kernels": {"sm": ["7.0", "8.0", "9.0"], "ptx": ["9.0"]},
            },
        },
    }  # fmt: skip


def fabric() -> dict[str, Any]:
    modules = ("libuct_cma.so.0", "libuct_ib.so.0", "libuct_rdmacm.so.0")
    return {
        "verbs": None, "providers": {"libmlx5-rdmav34.so": None}, "pmix": None, "mpich": [],
        "pml": ["cm", "ob1", "ucx"],
        "ucx": {"modules": dict.fromkeys(modules), "version": "1.18.1", "transports": ["self", "tcp"]},
    }  # fmt: skip


def ofi() -> dict[str, Any]:
    started = {"lent": True, "net": 8}
    return {
        "libfabric": {"error": None, "version": "2.1.0", "providers": ["efa", "tcp", "verbs"]},
        "plugin": {
            "name": "libnccl-net-ofi.so", "path": "/usr/local/lib/libnccl-net-ofi.so", "error": None,
            "release": "1.21.1", "nets": [6, 7, 8, 9, 10, 11, 12],
            "needs": {"libfabric.so.1": ["FABRIC_1.8"]},
        },
        "nccl": {"path": NCCL, "asks": [5, 6, 7, 8]}, "mtl": ["ofi"],
        "start": {"devices": ["eth0"], **started}, "data": {"bytes": 2**20, "same": 2**20, **started},
    }  # fmt: skip


def benchmarks(row: Stack) -> dict[str, Any]:
    name = MPI_LIBRARY[row.mpi.flavour]
    loads = {name: [f"/usr/lib/{name}.so.12"], "libnccl": [NCCL]}
    return {
        name: {
            "path": f"/usr/local/bin/{name}", "unresolved": [], "runpath": "", "usage": name, "error": None,
            "loads": dict(loads),
            "kernels": {"sm": ["7.0", "8.0", "9.0"], "ptx": ["9.0"]}, "releases": ["2.19.6"],
        }
        for name in PROGRAMS
    }  # fmt: skip


def additions() -> dict[str, Any]:
    module: dict[str, Any] = {"error": None, "file": f"{SITE}/einops/__init__.py", "replaces": []}
    return {
        "distributions": {
            "einops": {"error": None, "version": "0.8.2", "modules": {"einops": module}},
            "native": {
                "error": None, "version": "1.0",
                "modules": {"native": {"error": None, "file": f"{SITE}/native/__init__.py", "replaces": []}},
            },
        },
        "libraries": {}, "replaced": {}, "hidden": {}, "startup": {},
        "check": {"code": 0, "lines": ["No broken requirements found."], "said": ""},
    }  # fmt: skip


def libraries() -> dict[str, Any]:
    return {
        "nccl": {"path": NCCL, "version": 22105, "owner": "nvidia-nccl-cu12 2.21.5", "intact": True},
        "cudart": {
            "path": CUDART, "version": 12040, "owner": "nvidia-cuda-runtime-cu12 12.4.127", "intact": True,
        },
        "cudnn": {"path": CUDNN, "version": 90100, "owner": "nvidia-cudnn-cu12 9.1.0.70", "intact": True},
    }  # fmt: skip


def torch_distributed() -> dict[str, Any]:
    return {
        "available": {"nccl": True, "gloo": True, "mpi": False, "ucc": False},
        "configured": {"nccl": True, "gloo": True, "mpi": False}, "nccl": [2, 21, 5],
        "nccl_without_gpu": "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        "version": "2.6.0+cu124", "libraries": libraries(),
    }  # fmt: skip


def compiled(row: Stack) -> dict[str, Any]:
    library = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}[row.mpi.flavour]
    note = {
        "source": {"file": "native-1.0.tar.gz", "sha256": "c0" * 32}, "gcc": "13.3.0", "nvcc": "12.4",
        "cuda_sources": 3, "cuda_arches": ["7.0", "8.0", "9.0"], "mpi": row.mpi.version, "python": "3.13.5",
        "environment": {"FORCE_CUDA": "1"}, "cpu_flags": ["-mavx2"],
        "packages": {"torch": "2.6.0", "typing-extensions": "4.16.0", "nvidia-nccl-cu12": "2.21.5"},
    }  # fmt: skip
    extension = {
        "gcc": ["13.3.0"], "gpu_code": True, "kernels": {"sm": ["7.0", "8.0", "9.0"], "ptx": []},
        "needed": [library], "mpi": [f"/usr/lib/x86_64-linux-gnu/{library}"], "error": None,
    }  # fmt: skip
    return {"native": {"note": note, "extensions": {f"{SITE}/native/_C.so": extension}, "error": None}}


def mpi4py() -> dict[str, Any]:
    return {
        "version": "4.1.2", "file": f"{SITE}/mpi4py/MPI.so", "standard": [3, 1], "threads": True,
        "library": "Open MPI v5.0.7, package: Debian OpenMPI, ident: 5.0.7",
        "mapped": ["/usr/lib/libmpi.so.40"],
    }  # fmt: skip


def deepspeed() -> dict[str, Any]:
    names = ("cpu_adam", "fused_adam", "transformer_inference")
    return {
        "version": "0.19.8", "libraries": libraries(),
        "compiled_against": {"version": "2.6", "cuda_version": "12.4", "nccl_version": "2.21"},
        "operators": {name: {"compiled": name == "cpu_adam", "error": None} for name in names},
    }  # fmt: skip


def jax() -> dict[str, Any]:
    asked = {"CUDA runtime": (12010, 12040), "cuDNN": (90100, 90100), "cuFFT": (11200, 11300)}
    names = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt")
    return {
        "version": "0.12.0.1", "libraries": libraries(), "parts": dict.fromkeys(names, "0.12.0.1"),
        "asks": {
            name: {"built": made, "loads": loads, "error": None} for name, (made, loads) in asked.items()
        },
        "compiler": {"path": PTXAS, "libdevice": True, "release": "12.4", "error": None},
        "cuda_without_gpu": "JaxRuntimeError: FAILED_PRECONDITION: No visible GPU devices.",
    }  # fmt: skip


def built() -> dict[str, Any]:
    return {
        "mpi4py": mpi4py(), "deepspeed": deepspeed(), "jax": jax(),
        "torch_distributed": torch_distributed(),
        "torch": {
            "mpi_built": 1, "gloo_built": 1, "nccl_built": 22105, "cuda_built": 1, "horovod": "0.28.1",
            "metadata": {"pytorch": "2.6.0+cu124"},
            "compiled_by": {
                "nvcc": "12.4", "gcc": "13.3.0", "patches": ["cxx17.patch"],
                "cpu_flags": ["-mavx2", "-mf16c", "-mfma"],
            },
            "libraries": libraries(),
        }
    }  # fmt: skip


def together() -> dict[str, Any]:
    modules = ["horovod.torch", "torch.distributed", "mpi4py.MPI", "deepspeed", "jax"]
    mapped = {"libnccl": [NCCL], "libcudart": [CUDART], "libmpi": ["/usr/lib/libmpi.so.40"]}
    ranks = [
        {"rank": number, "size": 2, "given": [number + 1.0, 10.0 * (number + 1)], "mapped": mapped,
         "sums": {module: [3.0, 30.0] for module in modules}, "error": None}
        for number in (0, 1)
    ]  # fmt: skip
    turned = [way[start:] + way[:start] for way in (modules, modules[::-1]) for start in range(len(way))]
    return {
        "orders": [{"order": order, "code": 0, "asked": 2, "ranks": json.loads(json.dumps(ranks))}
                   for order in turned]
    }  # fmt: skip


def gpu() -> dict[str, Any]:
    rank = {
        "rank": 0, "size": 1, "given": [1.0, 10.0], "sum": [1.0, 10.0], "device": "cuda",
        "capabilities": ["8.6"], "driver_cuda": 12060, "driver": "NVRM version 560.35",
    }  # fmt: skip
    return {
        name: {"code": 0, "asked": 1, "ranks": [dict(rank)]} for name in ("torch", "torch_distributed", "jax")
    }


def stranger(*, read_only: bool = False) -> dict[str, Any]:
    """As the user of the probe's second container, and where the root is read-only."""
    names = {
        "uid": 12345, "gid": 23456, "name": "uid-12345", "again": 12345, "home": "/home/train",
        "shell": "/bin/bash", "group": "gid-23456", "getpass": "uid-12345", "error": None,
    }  # fmt: skip
    home = "/tmp/home-12345" if read_only else "/home/train"
    return {
        "names": names, "ssh": None, "read_only": read_only, "home": {"path": home, "unwritable": None},
        "folders": {"/workspace": "Read-only file system" if read_only else None, "/tmp": None},
    }  # fmt: skip


def sealed(row: Stack) -> dict[str, Any]:
    runs = first_run(row)
    return {
        "stranger": stranger(read_only=True), "compile": dict(COMPILED),
        "collective": {run: collective()[run] for run in runs}, "tool": {TOOL.name: served()},
    }  # fmt: skip


def docker_facts(row: Stack) -> dict[str, Any]:
    image = {**configuration.settings(row), "Labels": labels(row), "OnBuild": None, "ArgsEscaped": True}
    lines = [
        "ADD base.tar / # buildkit",
        *configuration.history(row),
        "RUN apt-get install gcc-13",
        "USER train",
    ]
    return {
        "files": files(), "ledger": ledger(), "system": system(row), "link": link(),
        "compile": dict(COMPILED), "fabric": fabric(), "ofi": ofi(), "benchmarks": benchmarks(row),
        "additions": additions(), "compiled": compiled(row),
        "built": built(), "attack": attack(), "collective": collective(), "together": together(),
        "gpu": gpu(), "image": {"Config": image},
        "history": {"lines": lines}, "credentials": {"texts": 40, "found": []},
        "layers": {"searched": ["mirror"], "layers": 3, "left": []},
        "stranger": stranger(), "sealed": sealed(row),
    }  # fmt: skip


def sif_facts(row: Stack) -> dict[str, Any]:
    facts = docker_facts(row)
    del facts["image"], facts["history"], facts["layers"], facts["sealed"]
    facts["system"]["environment"] |= {
        "LD_LIBRARY_PATH": "/.singularity.d/libs", "APPTAINER_NAME": "row.sif", "PS1": "Apptainer> ",
    }  # fmt: skip
    return {
        **facts,
        "labels": labels(row),
        "scripts": scripts(row),
        "sealed": {"tool": {TOOL.name: served()}},
    }


def scripts(row: Stack) -> dict[str, Any]:
    """What Apptainer 1.4 makes of the row's image; tests/support/samples/runscript.sh is as it writes it."""
    pairs = configuration.environment(row).items()
    exports = [f'export {name}="${{{name}:-"{value}"}}"' for name, value in pairs if name != "PATH"]
    environment = "\n".join(
        ("#!/bin/sh", f'export PATH="{configuration.environment(row)["PATH"]}"', *exports)
    )
    return {
        "runscript": (Path(__file__).parent / "runscript.sh").read_text(),
        "startscript": "#!/bin/sh\n# Custom start shell code should follow\n",
        "environment": {"/.singularity.d/env/10-docker2singularity.sh": environment},
    }


ROW = stack()


def failed(facts: dict[str, Any], row: Stack = ROW, world: str = "docker") -> dict[str, str]:
    return {check.id: check.detail for check in verify(row, facts, world, {}).failed}
