"""Stand-in for torch.cuda.nccl: the NCCL that PyTorch was compiled with."""


def version():
    return (2, 21, 5)
