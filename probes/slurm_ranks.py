"""Starts ranks with the variables that srun sets for each: what a training under Slurm finds its place by.

Usage: slurm_ranks.py COUNT PROGRAM…; ends with the code of the first rank that failed
"""

import os
import subprocess
import sys


def variables(rank, count):
    return {
        "SLURM_JOB_ID": "1", "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(count), "SLURM_NODEID": "0",
        "SLURM_LOCALID": str(rank), "SLURM_NTASKS_PER_NODE": str(count), "SLURM_NNODES": "1",
        "SLURM_STEP_NODELIST": "127.0.0.1",
    }  # fmt: skip


def main(count, argv):
    started = [
        subprocess.Popen(argv, env=dict(os.environ, **variables(rank, count))) for rank in range(count)
    ]
    codes = [one.wait() for one in started]
    return next((abs(code) for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
