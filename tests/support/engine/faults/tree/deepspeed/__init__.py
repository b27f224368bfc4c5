"""Stand-in for DeepSpeed."""

import torch  # noqa: F401 (it loads the libraries)

__version__ = "0.19.8"
