"""The command ``launch``: its many options, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from stackwright.cli.app import App, Words, allow_option, example, print_json, refuse
from stackwright.cli.front import PATH, json_option, rows_like
from stackwright.core.components.table import COMMUNICATION, LAUNCHERS, of, started_by
from stackwright.core.errors import UsageError
from stackwright.core.launch import launchers as launch
from stackwright.core.launch import tools
from stackwright.core.model.row import MpiFlavour, Stack

BY_SSH = ", ".join(name for name, launcher in launch.LAUNCHERS.items() if "hosts" in launcher.reads)


def launchers(command: Callable[..., None]) -> Callable[..., None]:
    """One option for each launcher there is."""
    for name, launcher in reversed(launch.LAUNCHERS.items()):
        command = click.option(f"--{name}", is_flag=True, help=launcher.makes)(command)
    return command


def _was_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _refuse_foreign(launcher: str, stack: Stack) -> None:
    """Refuse a launcher that comes with a communication layer that the row does not have."""
    if launcher in LAUNCHERS and launcher not in started_by(dict(stack.communication)):
        owner = next(layer for layer in COMMUNICATION if launcher in dict(layer.launchers))
        has = " and ".join(layer.title for layer in of(stack.communication))
        raise UsageError(
            f"--{launcher} starts programs of {owner.title}, and {stack.id} has {has}",
            hint=f"add {owner.name} to the row, or: ./build.py launch {stack.id} --mpirun",
        )


BY_MPI = ("mpirun", "slurm", "kubernetes")


def refuse_without_libfabric(launcher: str, stack: Stack, site: launch.Site) -> None:
    """Refuse --fabric ofi where NCCL, or the MPI that starts the ranks, could not go by libfabric."""
    if site.fabric != "ofi":
        return
    if not stack.plugin:
        cause = f"--fabric ofi needs NCCL's plugin for libfabric, which {stack.id} lacks"
        raise UsageError(cause, hint="fabric: [verbs, ofi] in the row; docs/matrix.md#fabrics")
    if launcher in BY_MPI and stack.mpi.flavour is MpiFlavour.MPICH and not site.host_mpi:
        cause = f"--fabric ofi: the distribution's MPICH, which {stack.id} has, is built without libfabric"
        raise UsageError(cause, hint="bind in the cluster's own MPI: --slurm --host-mpi FOLDER")


def _command(stack: Stack, site: launch.Site, command: tuple[str, ...]) -> tuple[str, ...]:
    """Return what each rank runs. UsageError where it is to measure, and cannot."""
    if not site.benchmark:
        return command or launch.TRAIN
    if command:
        raise UsageError(f"--benchmark runs {launch.BENCHMARK[0]}, and no {command[0]}", hint="leave one out")
    if not stack.nccl_tests:
        cause = f"--benchmark needs nccl-tests, which {stack.id} lacks"
        raise UsageError(cause, hint="benchmarks: [nccl-tests] in the row; docs/matrix.md#benchmarks")
    return launch.BENCHMARK


def _chosen(names: Sequence[str], tool: str | None) -> str:
    """Return the launcher that was asked for: of training, or of a tool."""
    if tool is None and names == ["apptainer"]:
        raise UsageError(
            "--apptainer is about --tool", hint="ranks of one host: --docker; of several: --slurm"
        )
    if tool is not None and not set(names) <= set(tools.LAUNCHERS):
        known = " or ".join(f"--{name}" for name in tools.LAUNCHERS)
        raise UsageError(f"--{names[0]} starts ranks, and {tool} is no training", hint=f"add {known}")
    return launch.chosen(names)


@click.command(
    "launch",
    epilog=example(
        "./build.py launch cuda12-torch --mpirun --hosts a:4,b:4 --interface eth0 --ssh-key /keys/id_ed25519",
        "./build.py launch cuda12-torch --mpirun --hosts a:4,b:4 --fabric infiniband -- python train.py -v",
        "./build.py launch cuda12-torch --slurm --nodes 2 --per-node 4 --into job",
        "./build.py launch cuda12-torch --kubernetes --nodes 2 --per-node 4 --format json",
    )
    + "\n\n\b\n  build.py launch ROW --slurm --tool NAME -- runs/today",
)
@click.argument("row", shell_complete=rows_like)
@click.argument("command", nargs=-1, metavar="[-- COMMAND…]")
@launchers
@click.option("--apptainer", is_flag=True, help="the line of apptainer exec, with --tool")
@click.option("--tool", type=click.Choice(tools.NAMES), help="serve a tool of the row; COMMAND is its folder")
@click.option("--port", type=click.IntRange(1024, 65535), help="with --tool: another port than the row's")
@click.option("--hosts", metavar="HOST:RANKS,…", help=f"{BY_SSH}: the nodes, and the ranks on each")
@click.option("--nodes", type=click.IntRange(1, launch.MOST_RANKS), default=1, help="how many nodes")
@click.option("--per-node", type=click.IntRange(1, 64), default=1, help="how many ranks on each: one per GPU")
@click.option("--interface", help="the network interface between the nodes, which every node has")
@click.option(
    "--fabric", type=click.Choice(launch.FABRICS), default="auto", show_default=True,
    help="between nodes; infiniband, ofi: fail where it is out of reach; auto: take InfiniBand if there",
)  # fmt: skip
@click.option("--hca", metavar="DEVICE:PORT", help="with --fabric infiniband: take this device alone")
@click.option("--provider", metavar="NAME", help="with --fabric ofi: take this provider of libfabric alone")
@click.option("--host-mpi", metavar="FOLDER", help="slurm: bind the cluster's own MPI into the container")
@click.option("--pyxis", is_flag=True, help="slurm: srun makes the container, with pyxis and enroot")
@click.option("--edf", is_flag=True, help="slurm: srun makes it, of an environment definition file (CSCS)")
@click.option("--podman-hpc", is_flag=True, help="slurm: podman-hpc makes the container (NERSC)")
@click.option(
    "--ssh-port", type=click.IntRange(1, 65535), default=launch.SSH_PORT, show_default=True,
    help="where sshd-as-user listens",
)  # fmt: skip
@click.option("--ssh-key", metavar="PATH", help="the private key, as the container sees it")
@click.option("--benchmark", is_flag=True, help="mpirun, slurm: measure with nccl-tests, and train nothing")
@click.option(
    "--link-speed", type=click.IntRange(1, 1_000_000), metavar="GBIT",
    help="with --benchmark: what the links of a node give together; fail below half of it",
)  # fmt: skip
@click.option("--into", type=PATH, help="write it into this folder, with the files that it needs next to it")
@allow_option
@json_option
@click.pass_obj
@click.pass_context
def launch_command(
    context: click.Context, app: App, /, row: str, command: Words, form: str, **options: Any
) -> None:
    """Print what starts training over several ranks, or a tool; each setting is explained in a comment.

    What is printed can be pasted into a shell, handed to sbatch or applied by kubectl; a script for sbatch
    needs files next to it, which --into writes. COMMAND is what each rank runs [default: python train.py].
    Needs no engine and no network.
    """
    from stackwright.core.render.dockerfile import reference

    tool, into = options.pop("tool"), options.pop("into")
    launcher = _chosen([name for name in (*launch.LAUNCHERS, "apptainer") if options.pop(name)], tool)
    given = {name.replace("_", "-") for name in options if _was_given(context, name)}
    launch.suits(launcher, tools.READS if tool else launch.LAUNCHERS[launcher].reads, given)
    port = options.pop("port")
    site = None if tool else launch.site(hosts_text=options.pop("hosts"), **options)
    planned = app.plan((row,), ())
    app.tell(planned)
    refuse(planned)
    if len(planned.rows) > 1:
        raise UsageError(f"{row!r} means {len(planned.rows)} rows", hint="name one of them")
    stack = planned.rows[0].stack
    target = launch.Target.of(stack, reference(planned.rows[0].recipe))
    made: launch.Launch
    if site is None:
        made = tools.LAUNCHERS[launcher](target, tools.served(stack, tool, port, command))
    else:
        _refuse_foreign(launcher, stack)
        refuse_without_libfabric(launcher, stack, site)
        made = launch.LAUNCHERS[launcher].make(target, site, _command(stack, site, command))
    if into is not None:
        _write(app, into, launch.files(stack.id, made))
    if form == "json":
        print_json(launch.document(stack.id, launcher, made))
    elif into is None:
        click.echo(launch.script(made))
        if extra := list(launch.files(stack.id, made))[1:]:
            app.say(f"it needs {' and '.join(extra)} next to it: add --into FOLDER to write all")


def _write(app: App, folder: Path, files: Mapping[str, str]) -> None:
    """Write what is launched and what it needs next to it; what is there is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        app.say(f"wrote {folder / name}")
