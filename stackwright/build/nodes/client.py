"""A client of Dask's for what ``--cluster`` names. Schedulers that we start speak TLS, with their own keys.

Everything of a site is in Dask's own configuration (docs/scale.md): partition, account and time limit of
Slurm's jobs, certificates, ports. Only what a worker of Stackwright needs is set here.
"""

from __future__ import annotations

import logging
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.config
import dask.utils
from dask_jobqueue.slurm import SLURMCluster
from distributed import Client, Security, SpecCluster
from distributed.deploy import ssh as by_ssh

from stackwright.build.nodes import tls
from stackwright.build.nodes.address import Address, Host, Kind
from stackwright.core.errors import NodesError
from stackwright.host.runner import Runner
from stackwright.host.shipped import PACKAGE

ENGINE, GPU = "engine", "GPU"
"""Resources of a worker. A row needs an engine, and a GPU too if it is tested on one while it is built."""

LOCAL = {"cores": 2, "memory": "8GB"}
"""What a job of Slurm asks for where Dask's configuration does not say."""

ASK = 30.0
"""Seconds between two questions to Slurm."""

UNKNOWN = "Invalid job id"
"""The error of squeue for a single job that ended some time ago."""

TLS = "distributed.comm.tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """``folder`` is one that all nodes see and only the user reads. ``jobs`` is how many jobs Slurm is asked
    for."""

    folder: Path
    jobs: int
    gpu: bool
    runner: Runner
    say: Callable[[str], None]


@contextmanager
def connected(address: Address, startup: Startup) -> Iterator[Client]:
    """A client with at least one worker that has an engine. NodesError where there is none."""
    _silence()
    tls.dask_setup()
    with ExitStack() as stack:
        try:
            if address.kind is Kind.SCHEDULER:
                client = stack.enter_context(Client(address.scheduler))
            else:
                start = _slurm if address.kind is Kind.SLURM else _ssh
                client = stack.enter_context(Client(stack.enter_context(start(address, startup))))
        except Exception as error:  # of Dask, asyncssh, sbatch, TLS: each has its own
            raise NodesError(
                f"the cluster cannot be used: {_cause(error)}", place=address.scheduler or address.kind,
                hint="docs/scale.md says what a cluster needs",
            ) from error  # fmt: skip
        place = str(client.scheduler_info(n_workers=0)["address"])
        if place.startswith("tcp:"):
            startup.say(f"{place}: not encrypted; who reaches its port can run programs on the nodes")
        startup.say(f"dashboard: {client.dashboard_link}")
        _wait(client, address, startup)
        yield client


def _silence() -> None:
    """What is lost is said once, by us. Dask gives some of its loggers a level and a handler of their own."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def engines(client: Client, *more: str) -> tuple[str, ...]:
    """Addresses of the workers that have an engine, and of each other resource one as well."""
    workers: dict[str, dict[str, Any]] = client.scheduler_info(n_workers=-1).get("workers", {})
    needs = (ENGINE, *more)
    return tuple(
        name
        for name, worker in workers.items()
        if all(worker.get("resources", {}).get(need, 0) >= 1 for need in needs)
    )


def _wait(client: Client, address: Address, startup: Startup) -> None:
    """For a worker: as long as one is in Slurm's queue, else twice as long as Dask waits for a scheduler."""
    patience = 2 * dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
    began = asked = time.monotonic()
    while not engines(client):
        now = time.monotonic()
        if address.kind is not Kind.SLURM and now - began > patience:
            hint = f"start workers with --resources {ENGINE}=1; docs/scale.md shows how"
            raise NodesError(f"no worker has the resource {ENGINE}", place=address.scheduler, hint=hint)
        if address.kind is Kind.SLURM and now - asked > ASK:
            jobs = _jobs(client)
            if jobs and not in_queue(jobs, startup.runner):
                cause = "the jobs of Slurm's ended before they had a worker"
                raise NodesError(cause, hint=f"what they said is in {startup.folder}")
            startup.say("no job of Slurm has started yet; squeue shows what they wait for")
            asked = now
        time.sleep(0.2)


def replace_lost(client: Client, jobs: int) -> None:
    """Ask Slurm again for jobs that Dask knows to be gone; it does not do so by itself."""
    if isinstance(client.cluster, SLURMCluster):
        client.cluster.scale(jobs=jobs)


def _jobs(client: Client) -> tuple[str, ...]:
    """Their numbers, of those that were handed to Slurm."""
    jobs: dict[str, Any] = getattr(client.cluster, "workers", {})
    return tuple(str(job.job_id) for job in jobs.values() if getattr(job, "job_id", None))


def in_queue(jobs: Sequence[str], runner: Runner) -> bool:
    """Return whether a job waits or runs; True until Slurm denies it. Dask does not ask."""
    done = runner(["squeue", "--noheader", "--format=%i", f"--jobs={','.join(jobs)}"], timeout=60)
    return bool(done.stdout.strip()) or not (done.ok or UNKNOWN in done.stderr)


@contextmanager
def _slurm(address: Address, startup: Startup) -> Iterator[SLURMCluster]:
    """Jobs that are made again when they are lost, as many as rows are wanted at a time."""
    known = dask.config.get("jobqueue.slurm")
    extra = list(known.get("worker-extra-args") or ())
    if "--resources" not in extra:
        extra += ["--resources", shlex.quote(f"{ENGINE}=1 {GPU}=1") if startup.gpu else f"{ENGINE}=1"]
    for module in _preloads("worker"):
        extra += ["--preload", shlex.quote(module)]
    directives = [*(known.get("job-extra-directives") or ()), *(["--gpus=1"] if startup.gpu else [])]
    place = shlex.quote(str(PACKAGE.parent))
    options: dict[str, Any] = {name: value for name, value in LOCAL.items() if known.get(name) is None}
    with SLURMCluster(
        **options, processes=1, worker_extra_args=extra, job_extra_directives=directives,
        job_script_prologue=[
            *(known.get("job-script-prologue") or ()),
            f"export PYTHONPATH={place}${{PYTHONPATH:+:$PYTHONPATH}}",
            f"cd {place}",
        ],
        log_directory=known.get("log-directory") or str(startup.folder),
        shared_temp_directory=known.get("shared-temp-directory") or str(startup.folder),
        security=_security(),
    ) as cluster:  # fmt: skip
        cluster.scale(jobs=startup.jobs)
        yield cluster


@contextmanager
def _ssh(address: Address, startup: Startup) -> Iterator[SpecCluster]:
    """The scheduler on the first host, a worker on each. Their configuration, and with it where the keys are,
    goes along with the command."""
    python = f"env PYTHONPATH={shlex.quote(str(PACKAGE.parent))} {shlex.quote(sys.executable)}"
    protocol = {"protocol": "tcp://" if _in_the_clear() else "tls://"}
    reached: dict[str, Any] = {"connect_options": {}, "remote_python": python}

    def worker(host: Host) -> dict[str, Any]:
        resources = {ENGINE: 1, **({GPU: host.gpus} if host.gpus else {})}
        options = {"nthreads": 2, "resources": resources, "preload": _preloads("worker"), **protocol}
        return {"cls": by_ssh.Worker, "options": {"address": host.name, "kwargs": options, **reached}}

    with _tls_in_configuration(startup.folder):
        options = {"preload": _preloads("scheduler"), **protocol}
        first = {"address": address.hosts[0].name, "kwargs": options, **reached}
        workers = {number: worker(host) for number, host in enumerate(address.hosts)}
        spec = {"cls": by_ssh.Scheduler, "options": first}
        with SpecCluster(workers, spec, name="stackwright", security=Security()) as cluster:
            yield cluster


def _preloads(role: str) -> list[str]:
    """Return the site's, which Dask does not read where it is given some, and ours."""
    return [*dask.config.get(f"distributed.{role}.preload"), tls.__name__]


def _security() -> Security | None:
    """Return the site's certificates, or some for this run only; None where the site wants no encryption."""
    if _in_the_clear():
        return None
    own = dask.config.get(f"{TLS}.ca-file")
    found: Security = Security() if own else Security.temporary()
    return found


def _in_the_clear() -> bool:
    """Said by the site, and not only not asked for."""
    return dask.config.get("distributed.comm.require-encryption") is False


@contextmanager
def _tls_in_configuration(folder: Path) -> Iterator[None]:
    """Keys for this run, in files that only the user reads, on all nodes; the site's own if it has some."""
    if _in_the_clear() or dask.config.get(f"{TLS}.ca-file"):
        yield
        return
    made = Security.temporary()
    with tempfile.TemporaryDirectory(prefix="keys-", dir=folder) as own, ExitStack() as stack:
        cert, key = Path(own) / "cert.pem", Path(own) / "key.pem"
        cert.write_text(made.tls_client_cert)
        key.write_text(made.tls_client_key)
        settings = {f"{TLS}.ca-file": str(cert)}
        for role in ("client", "scheduler", "worker"):
            settings |= {f"{TLS}.{role}.cert": str(cert), f"{TLS}.{role}.key": str(key)}
        stack.callback(setattr, dask.config, "global_config", dask.config.global_config)
        stack.enter_context(dask.config.set(settings))
        dask.config.global_config = dask.config.config  # what ssh.Worker hands on
        yield


def _cause(error: BaseException) -> str:
    """Return the first line of the root cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
