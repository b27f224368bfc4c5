"""libfabric, and NCCL's plugin for it: what a row with ``fabric: [verbs, ofi]`` has besides verbs."""
