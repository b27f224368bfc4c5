"""All communication layers of a row in one process: which libraries it maps, and whether their sums agree.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Two ranks import the
layers in one order, start them in that order, and sum the same numbers by each. Each layer comes first, and
each comes before and after each other one, in as few orders as that needs.
Usage: together.py FACTS.json MODULE… (as in: horovod.torch torch.distributed); one rank of it:
together.py FOLDER MODULE,…
"""

import importlib
import json
import os
import sys
import tempfile

import run
from collective import given, leave
from link import LIBRARY

RANKS = 2
LIMIT = 240
"""Seconds for one order."""
PLACES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)  # fmt: skip
"""What mpirun sets, for layers that have no MPI of their own."""


def orders(modules):
    """All rotations of the list and of its reverse, without those that are equal."""
    ways = (list(modules), list(reversed(modules)))
    turned = [tuple(way[start:] + way[:start]) for way in ways for start in range(len(way))]
    return sorted(set(turned))


def place():
    """Rank and size, as mpirun says."""
    for names in PLACES:
        if all(name in os.environ for name in names):
            return tuple(int(os.environ[name]) for name in names)
    raise RuntimeError("mpirun set no variables of a rank")


def process_group():
    """The one group of torch.distributed that its users share."""
    import torch.distributed as dist

    rank, size = place()
    if not dist.is_initialized():
        where = "tcp://127.0.0.1:" + os.environ["MASTER_PORT"]
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
    return dist


def with_horovod(module, values):
    module.init()
    if module.__name__.endswith(".torch"):
        import torch

        return module.allreduce(torch.tensor(values), op=module.Sum, name="together").tolist()
    found = module.allreduce(values, op=module.Sum, name="together")
    return [float(value) for value in found]


def with_torch_distributed(module, values):
    import torch

    total = torch.tensor(values)
    process_group().all_reduce(total)
    return total.tolist()


def with_mpi4py(module, values):
    return [float(value) for value in module.COMM_WORLD.allreduce(values, op=columns)]


def columns(one, other):
    return [left + right for left, right in zip(one, other)]


def with_deepspeed(module, values):
    import torch

    process_group()  # which it takes over
    module.ops.__compatible_ops__ = {}  # nothing is compiled here
    module.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)
    total = torch.tensor(values)
    module.comm.all_reduce(total)
    return total.tolist()


def with_jax(module, values):
    import collective_jax

    collective_jax.connect(module, "mpi", *place())
    total = collective_jax.World(module).over(lambda one: module.lax.psum(one, collective_jax.AXIS))
    return total(values).tolist()


SUMS = {
    "deepspeed": with_deepspeed,
    "horovod": with_horovod,
    "jax": with_jax,
    "mpi4py": with_mpi4py,
    "torch.distributed": with_torch_distributed,
}
"""By the name of a module, or the head of it."""


def sum_by(name):
    return SUMS.get(name) or SUMS[name.split(".")[0]]


def mapped():
    """The files of NCCL, CUDA and MPI that this process maps, by library."""
    found = {}
    with open("/proc/self/maps") as handle:
        lines = [line.split(None, 5)[5:] for line in handle]
    paths = sorted({os.path.realpath(line[0].rstrip("\n")) for line in lines if line and line[0][0] == "/"})
    for path in paths:
        match = LIBRARY.match(os.path.basename(path))
        if match:
            found.setdefault("lib" + match.group(1), []).append(path)
    return found


def one_rank(folder, names):
    os.environ.update(CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1",
                      JAX_PLATFORMS="cpu", JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo",
                      JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1")  # fmt: skip
    rank, size = place()
    facts = {"rank": rank, "size": size, "given": given(rank), "sums": {}, "error": None}
    try:
        modules = [(name, importlib.import_module(name)) for name in names]
        for name, module in modules:
            facts["sums"][name] = sum_by(name)(module, given(rank))
        facts["mapped"] = mapped()
    except Exception as error:
        facts["error"] = "%s: %s" % (type(error).__name__, error)
        raise
    finally:
        leave(folder, facts)


def in_order(names):
    prefix, extra = run.mpi(RANKS)
    extra["JAX_COORDINATOR_PORT"] = run.meeting_point()["MASTER_PORT"]
    argv = [*prefix, *run.program("together")]
    with tempfile.TemporaryDirectory() as folder:
        code, text = run.run([*argv, folder, ",".join(names)], LIMIT, extra)
        ranks = run.left_in(folder)
    facts = {"order": list(names), "code": code, "asked": RANKS, "ranks": ranks}
    return dict(facts, output=text[-run.TAIL :]) if code else facts


def main(target, names):
    facts = {"orders": [in_order(order) for order in orders(names)]}
    with open(target, "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)


if __name__ == "__main__":
    if os.path.isdir(sys.argv[1]):
        one_rank(sys.argv[1], sys.argv[2].split(","))
    else:
        main(sys.argv[1], sys.argv[2:])
