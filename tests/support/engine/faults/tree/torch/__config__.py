"""Stand-in for torch.__config__: a part of what PyTorch notes of its build."""


def show():
    return "PyTorch built with:\n  - Build settings: USE_CUDA=ON, USE_GLOO=ON, USE_MPI=OFF, USE_NCCL=1, \n"
