"""Programs that measure a cluster: what a row with ``benchmarks: [nccl-tests]`` has."""
