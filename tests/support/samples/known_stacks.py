"""Stacks that others publish and run, and combinations that are known to fail. Data, each with its source.

A published stack that our rules refuse names the rule, and why we are stricter. Values that a source does
not give are left out; a GPU architecture is one that the stack's CUDA makes code for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stackwright.core.model.row import Cell, Mpi


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """``rule`` is empty where the rules about the stack accept it; ``why`` is the reason of a refusal."""

    name: str
    source: str
    values: tuple[tuple[str, Any], ...]
    rule: str = ""
    why: str = ""
    extra: tuple[str, str] | None = None

    @property
    def cell(self) -> Cell:
        return Cell.of({"id": "known", **NOWHERE, **dict(self.values)})


NOWHERE: dict[str, Any] = {
    "provider": "nvidia",
    "os": "elsewhere",
    "horovod": "0.28.1",
    "mpi": Mpi.of("openmpi", "4.1"),
}
"""A base that the tables do not know: the rules about the stack alone are to speak."""


def _stack(name: str, source: str, rule: str = "", why: str = "", **values: Any) -> Stack:
    return Stack(name=name, source=source, rule=rule, why=why, values=tuple(values.items()))


CI = "horovod master 2626dc87, docker-compose.test.yml"
EB = "easybuild-easyconfigs 9ba1c109"
OWN_BUILD = "it builds the framework from source; here frameworks come as wheels"

RUN = (
    _stack("Horovod CI, base", CI, python="3.8", cuda="11.8", gcc="9", tensorflow="2.12.0",
           keras="2.12.0", torch="2.0.0+cu118", mxnet="1.9.1", cudnn="8.6.0.163", nccl="2.16.5"),
    _stack("Horovod CI, TF 2.10", CI, python="3.8", cuda="11.8", gcc="9", tensorflow="2.10.1", keras="2.10.0",
           torch="1.12.1+cu116", mxnet="1.8.0.post0", cudnn="8.4.1.50", nccl="2.11.4"),
    _stack("Horovod CI, TF 2.11", CI, python="3.8", cuda="11.8", gcc="9", tensorflow="2.11.1", keras="2.11.0",
           torch="1.13.1+cu116", mxnet="1.8.0.post0", cudnn="8.4.1.50", nccl="2.11.4"),
    _stack("Horovod CI, lowest", CI, python="3.8", cuda="11.8", gcc="9", torch="1.5.0+cu101",
           mxnet="1.8.0.post0", rule="torch-cuda",
           why="compiled there and not tested: torch loads its own CUDA 10.1 beside nvcc 11.8"),
    _stack("Horovod release image", "horovod v0.28.0, docker/horovod/Dockerfile", python="3.8", cuda="11.3.1",
           gcc="9", tensorflow="2.9.2", torch="1.12.1+cu113", mxnet="1.9.1", cudnn="8.2.1.32", nccl="2.9.9"),
    _stack("Horovod 0.24 release image", "horovod v0.24.0, docker/horovod/Dockerfile", horovod="0.24.0",
           python="3.8", cuda="11.2.2", gcc="7", tensorflow="2.5.0", torch="1.8.1+cu111",
           mxnet="1.8.0.post0", cudnn="8.1.1.33", nccl="2.8.4"),
    _stack("Horovod 0.21 release image", "horovod v0.21.3, Dockerfile.gpu", horovod="0.21.3", python="3.7",
           cuda="10.1", gcc="7", tensorflow="2.3.0", torch="1.6.0+cu101", mxnet="1.6.0.post0",
           cudnn="7.6.5.32", nccl="2.7.8", gpu_arch=("7.0",)),
    _stack("Horovod 0.18 release image", "horovod v0.18.2, Dockerfile.gpu", horovod="0.18.2", python="3.6",
           cuda="10.0", gcc="7", tensorflow="2.0.0", torch="1.3.0+cu100", mxnet="1.5.0", cudnn="7.6.0.64",
           nccl="2.4.7"),
    _stack("Horovod 0.18 CI", "horovod v0.18.2, docker-compose.test.yml", horovod="0.18.2", python="3.6",
           cuda="10.0", gcc="4.8", tensorflow="1.14.0", torch="1.1.0+cu100", mxnet="1.4.1"),
    _stack("AWS, PyTorch 2.2", "aws/deep-learning-containers, release_images_training.yml", python="3.10",
           cuda="12.1", torch="2.2.0"),
    _stack("AWS, PyTorch 2.1", "aws/deep-learning-containers, release_images_training.yml", python="3.10",
           cuda="12.1", torch="2.1.0"),
    _stack("AWS, TensorFlow 2.12", "aws/deep-learning-containers, release_images_training.yml", python="3.10",
           cuda="11.8", tensorflow="2.12.0"),
    _stack("AWS, TensorFlow 2.13", "aws/deep-learning-containers, release_images_training.yml", python="3.10",
           cuda="11.8", tensorflow="2.13.0"),
    _stack("AWS, TensorFlow 2.10", "aws/deep-learning-containers, Dockerfile of TF 2.10", python="3.9",
           cuda="11.2.2", tensorflow="2.10.1"),
    _stack("AWS, PyTorch 1.12", "aws/deep-learning-containers, pytorch-training:1.12.0-gpu-py38-cu113",
           python="3.8", cuda="11.3", torch="1.12.0+cu113"),
    _stack("EasyBuild, PyTorch 1.12", f"{EB}, Horovod-0.28.1-foss-2022a-CUDA-11.7.0-PyTorch-1.12.1",
           python="3.10", cuda="11.7.0", gcc="11.3", torch="1.12.1", cudnn="8.4.1.50", nccl="2.12.12",
           rule="torch-cuda", why=OWN_BUILD),
    _stack("EasyBuild, PyTorch 1.13", f"{EB}, Horovod-0.28.1-foss-2022a-CUDA-11.7.0-PyTorch-1.13.1",
           python="3.10", cuda="11.7.0", gcc="11.3", torch="1.13.1", cudnn="8.5.0.96", nccl="2.12.12"),
    _stack("EasyBuild, PyTorch 1.13, gcc 12", f"{EB}, PyTorch-1.13.1-foss-2022b-CUDA-11.7.0", python="3.10",
           cuda="11.7.0", gcc="12.2", torch="1.13.1", rule="cuda-gcc",
           why="nvcc of CUDA 11.7 refuses gcc 12 unless its check is switched off, as it is there"),
    _stack("EasyBuild, TensorFlow 2.11", f"{EB}, Horovod-0.28.1-foss-2022a-CUDA-11.7.0-TensorFlow-2.11.0",
           python="3.10", cuda="11.7.0", gcc="11.3", tensorflow="2.11.0", cudnn="8.4.1.50", nccl="2.12.12"),
    _stack("EasyBuild, TensorFlow 2.9", f"{EB}, Horovod-0.28.1-foss-2022a-CUDA-11.7.0-TensorFlow-2.9.1",
           python="3.10", cuda="11.7.0", gcc="11.3", tensorflow="2.9.1", cudnn="8.4.1.50", nccl="2.12.12"),
    _stack("EasyBuild, TensorFlow 2.15", f"{EB}, TensorFlow-2.15.1-foss-2023a-CUDA-12.1.1", python="3.11",
           cuda="12.1.1", gcc="12.3", tensorflow="2.15.1", cudnn="8.9.2.26", nccl="2.18.3", rule="cudnn",
           why=OWN_BUILD),
    _stack("EasyBuild, TensorFlow 2.18", f"{EB}, TensorFlow-2.18.1-foss-2024a-CUDA-12.6.0", python="3.12",
           cuda="12.6.0", gcc="13.3", tensorflow="2.18.1", cudnn="9.5.0.50", nccl="2.22.3", rule="cudnn",
           why=OWN_BUILD),
    _stack("EasyBuild, PyTorch 2.1", f"{EB}, PyTorch-2.1.2-foss-2023a-CUDA-12.1.1", python="3.11",
           cuda="12.1.1", gcc="12.3", torch="2.1.2", cudnn="8.9.2.26", nccl="2.18.3"),
    _stack("EasyBuild, PyTorch 2.3", f"{EB}, PyTorch-2.3.0-foss-2023b-CUDA-12.4.0", python="3.11",
           cuda="12.4.0", gcc="13.2", torch="2.3.0", cudnn="9.0.0.312", rule="cudnn", why=OWN_BUILD),
    _stack("EasyBuild, PyTorch 2.7", f"{EB}, PyTorch-2.7.1-foss-2024a-CUDA-12.6.0", python="3.12",
           cuda="12.6.0", gcc="13.3", torch="2.7.1", cudnn="9.5.1.17", nccl="2.26.2",
           mpi=Mpi.of("openmpi", "5.0.3")),
    _stack("EasyBuild, PyTorch 2.9", f"{EB}, PyTorch-2.9.1-foss-2024a-CUDA-12.6.0", python="3.12",
           cuda="12.6.0", gcc="13.3", torch="2.9.1", cudnn="9.10.2.21", nccl="2.27.5",
           mpi=Mpi.of("openmpi", "5.0.3")),
    _stack("conda-forge, CUDA 13", "conda-forge/horovod-feedstock 8423402", python="3.12", cuda="13.0",
           gcc="15", tensorflow="2.21.0", torch="2.12.1", mpi=Mpi.of("mpich", "5"),
           rule="one-cuda-wheels",
           why="it builds TensorFlow for CUDA 13; the index has it for CUDA 12 alone"),
    _stack("conda-forge, CUDA 12.9", "conda-forge/horovod-feedstock 8423402", python="3.12", cuda="12.9",
           gcc="14", tensorflow="2.21.0", torch="2.12.1", mpi=Mpi.of("openmpi", "5"),
           rule="one-cuda-wheels", why="it builds PyTorch for CUDA 12.9; the index has 2.12 for CUDA 13"),
    _stack("NGC 18.12", "NVIDIA, TensorFlow release 18.12", horovod="0.15.1", python="3.5", cuda="10.0",
           gcc="4.9", tensorflow="1.12.0", cudnn="7.4.1", nccl="2.3.7", rule="tensorflow-cuda",
           why=OWN_BUILD),
    _stack("NGC 20.10", "NVIDIA, TensorFlow release 20.10", horovod="0.20.0", python="3.6", cuda="11.1",
           gcc="7", tensorflow="2.3.1", cudnn="8.0.4", nccl="2.7.8", rule="tensorflow-cuda", why=OWN_BUILD),
    _stack("one wheel set, CUDA 12", "uv, run: TF 2.20.0, torch 2.8.0", python="3.12", cuda="12.8",
           gcc="13", tensorflow="2.20.0", torch="2.8.0", cudnn="9.10.2.21", nccl="2.27.3"),
    _stack("one wheel set, CUDA 11", "uv, run: TF 2.13.1, torch 2.0.1, mxnet-cu112 1.9.1", python="3.11",
           cuda="11.8", gcc="11", tensorflow="2.13.1", torch="2.0.1", mxnet="1.9.1", nccl="2.14.3"),
    _stack("PyTorch 2.15", "the index, read 2026-11-20", python="3.13", cuda="13.2", gcc="15",
           torch="2.15.0", cudnn="9.26.0.51", nccl="2.30.7"),
)  # fmt: skip
"""Stacks that somebody publishes and runs."""

NVCC = "crt/host_config.h of each CUDA release, as in hank-ai/darknet #129"
ARCH = "nvcc: Unsupported gpu architecture"

FAIL = (
    _stack("gcc 14, CUDA 12.4", NVCC, "cuda-gcc", python="3.13", cuda="12.4", gcc="14", torch="2.6.0"),
    _stack("gcc 14, CUDA 12.0", "hank-ai/darknet #129", "cuda-gcc", python="3.11", cuda="12.0", gcc="14",
           torch="2.2.2"),
    _stack("gcc 12, CUDA 11.7", "horovod #3770", "cuda-gcc", python="3.10", cuda="11.7", gcc="12",
           torch="1.13.1"),
    _stack("gcc 8, CUDA 10.0", NVCC, "cuda-gcc", python="3.7", cuda="10.0", gcc="8", tensorflow="1.15.5"),
    _stack("sm_70, CUDA 13", "Dao-AILab/fast-hadamard-transform #16", "cuda-arch", python="3.12", cuda="13.0",
           gcc="13", torch="2.12.1", gpu_arch=("7.0",)),
    _stack("sm_75, CUDA 9.2", "pytorch #22129", "cuda-arch", python="3.7", cuda="9.2", gcc="6",
           torch="1.5.1+cu92", gpu_arch=("7.5",)),
    _stack("sm_75, CUDA 8.0", "erikwijmans/Pointnet2_PyTorch #91", "cuda-arch", python="3.6", cuda="8.0",
           gcc="5", torch="1.0.1", gpu_arch=("7.5",)),
    _stack("sm_86, CUDA 11.0", "zhanghang1989/PyTorch-Encoding #383", "cuda-arch", python="3.8", cuda="11.0",
           gcc="9", torch="1.7.1+cu110", gpu_arch=("8.6",)),
    _stack("sm_30, CUDA 11.2", "horovod #3922", "cuda-arch", python="3.7", cuda="11.2", gcc="9",
           tensorflow="2.10.1", gpu_arch=("3.0",)),
    _stack("sm_70 asked for, CUDA 8", "caffe2 #2074", "cuda-arch", python="3.5", cuda="8.0", gcc="5",
           torch="1.0.1", gpu_arch=("7.0",)),
    _stack("sm_90, CUDA 11.7", ARCH, "cuda-arch", python="3.10", cuda="11.7", gcc="11", torch="2.0.1",
           gpu_arch=("9.0",)),
    _stack("MXNet, CUDA 12", "the index: no mxnet-cu12x", "mxnet-cuda", python="3.11", cuda="12.1", gcc="12",
           mxnet="1.9.1"),
    _stack("MXNet, CUDA 13", "the index: no mxnet-cu13x", "mxnet-cuda", python="3.11", cuda="13.0", gcc="12",
           mxnet="1.9.1"),
    _stack("MXNet, Python 3.12", "the index: no numpy 1.23 for 3.12", "mxnet-python", python="3.12",
           cuda="11.2", gcc="10", mxnet="1.9.1"),
    _stack("MXNet 1.6.0 without .post0", "apache/incubator-mxnet #16193", "mxnet-headers", python="3.7",
           cuda="10.2", gcc="7", mxnet="1.6.0"),
    _stack("MXNet 1.7.0 without .post", "horovod, docs/install.rst", "mxnet-headers", python="3.7",
           cuda="10.2", gcc="7", mxnet="1.7.0"),
    _stack("TF 2.21, torch 2.12.1", "pytorch #186591", "one-cuda-wheels", python="3.12", cuda="13.0",
           gcc="13", tensorflow="2.21.0", torch="2.12.1"),
    _stack("TF 2.21, torch 2.9.1", "uv: no solution, NCCL", "framework-pins", python="3.12", cuda="12.8",
           gcc="13", tensorflow="2.21.0", torch="2.9.1"),
    _stack("TF 2.21, torch 2.8.0", "uv: no solution, NCCL", "framework-pins", python="3.12", cuda="12.8",
           gcc="13", tensorflow="2.21.0", torch="2.8.0"),
    _stack("TF 2.20, torch 2.6.0", "uv: no solution, nvrtc", "framework-pins", python="3.12", cuda="12.6",
           gcc="13", tensorflow="2.20.0", torch="2.6.0"),
    _stack("TF 2.19.1, torch 2.7.1", "uv: no solution, nvrtc", "framework-pins", python="3.12", cuda="12.6",
           gcc="13", tensorflow="2.19.1", torch="2.7.1"),
    _stack("TF 2.18.1, torch 2.5.1", "uv: no solution, nvrtc", "framework-pins", python="3.12", cuda="12.6",
           gcc="13", tensorflow="2.18.1", torch="2.5.1"),
    _stack("TF 2.17.1, torch 2.4.1", "uv: no solution, nvrtc", "framework-pins", python="3.12", cuda="12.4",
           gcc="13", tensorflow="2.17.1", torch="2.4.1"),
    _stack("TF 2.15.1, torch 2.1.2", "uv: no solution, nvrtc", "framework-pins", python="3.11", cuda="12.1",
           gcc="12", tensorflow="2.15.1", torch="2.1.2"),
    _stack("TF 2.14.1, torch 2.0.1", "uv: no solution, cuda-runtime", "framework-pins", python="3.11",
           cuda="11.8", gcc="11", tensorflow="2.14.1", torch="2.0.1"),
    _stack("TF 2.14.1, torch 2.1.2", "uv: no solution", "one-cuda-wheels", python="3.11", cuda="12.1",
           gcc="12", tensorflow="2.14.1", torch="2.1.2"),
    _stack("Python 3.13, TF 2.19", "the index: no wheel", "tensorflow-python", python="3.13", cuda="12.4",
           gcc="13", tensorflow="2.19.1"),
    _stack("Python 3.14, TF 2.21", "the index: no wheel", "tensorflow-python", python="3.14", cuda="12.8",
           gcc="13", tensorflow="2.21.0"),
    _stack("Python 3.12, torch 2.0.1", "the index: no wheel", "torch-python", python="3.12", cuda="11.8",
           gcc="11", torch="2.0.1"),
    _stack("Python 3.9, torch 2.9.1", "the index: no wheel", "torch-python", python="3.9", cuda="12.8",
           gcc="13", torch="2.9.1"),
    _stack("g++ 7, TF 1.14", "horovod #1483", "tensorflow-gcc", horovod="0.18.2", python="3.6", cuda="10.0",
           gcc="7", tensorflow="1.14.0"),
    _stack("torch 1.3.0, CUDA 9.0", "the oldest row that was asked for; PyTorch, previous versions",
           "torch-cuda", horovod="0.18.2", python="3.5", cuda="9.0", gcc="4.9", torch="1.3.0"),
    Stack(name="torch 2.0.1, setuptools 75", source="horovod #4051", rule="torch-setuptools",
          extra=("setuptools", "75"), values=(("python", "3.11"), ("cuda", "11.8"), ("torch", "2.0.1"))),
    Stack(name="MXNet, numpy 1.24", source="apache/mxnet: numpy.bool", rule="framework-numpy",
          extra=("numpy", "1.24.4"), values=(("python", "3.8"), ("cuda", "11.2"), ("mxnet", "1.9.1"))),
    Stack(name="CUDA 12, driver 470", source="NVIDIA, CUDA Compatibility", rule="cuda-driver",
          extra=("driver", "470"), values=(("python", "3.12"), ("cuda", "12.4"), ("torch", "2.6.0"))),
)  # fmt: skip
"""Combinations that are known to fail, each with the rule that names why."""
