"""Stand-in for what JAX finds of CUDA's compiler."""

import sysconfig
from pathlib import Path

cuda_path = str(Path(sysconfig.get_path("purelib")) / "nvidia" / "cuda_nvcc")
