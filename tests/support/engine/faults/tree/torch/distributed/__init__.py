"""Stand-in for torch.distributed: what it answers without a GPU and without a second rank."""

REASON = "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"


def is_available():
    return True


def is_nccl_available():
    return True


def is_gloo_available():
    return True


def is_mpi_available():
    return False


def is_ucc_available():
    return False


def init_process_group(backend, **options):
    raise ValueError(REASON)
