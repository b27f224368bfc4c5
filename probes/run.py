"""Starts the other probes inside one container and sees to it that each leaves a JSON file.

Runs inside the image with the image's own Python and imports nothing of Stackwright. A probe that
crashes, hangs or writes nothing leaves {"error": …} with the end of its output.
Usage: run.py FOLDER PROBE…, where PROBE is one of
  files, system, stranger, tool=NAME, link=MODULE,…, compile (=own-caches), fabric, ofi,
  benchmarks=PROGRAM,…,
  additions=NAME,…, compiled=NAME,…, built=EXTENSION, attack, together=MODULE,…,
  collective=EXTENSION/LAUNCHER (mpi, gloo, torchrun or srun),
  gpu=EXTENSION/N
Where there is a program NAME_EXTENSION.py, that is the probe NAME of the extension.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import driver

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 2
LIMIT = {
    "files": 300,
    "system": 120,
    "stranger": 120,
    "tool": 600,
    "link": 600,
    "additions": 900,
    "compile": 300,
    "compiled": 900,
    "fabric": 120,
    "ofi": 300,
    "benchmarks": 600,
    "built": 300,
    "attack": 120,
    "collective": 300,
    "gpu": 600,
    "together": 900,
}
"""Seconds; of a probe that is not here, 300."""
LISTS = ("link", "additions", "benchmarks", "compiled", "together")
"""Probes that have a list after the "=": their files are named without it."""
TAIL = 2000
"""Characters of output that are kept of a probe that failed."""


def run(argv, limit, extra=None):
    """Exit code and output of a program; at its limit it is killed with all that it started."""
    with tempfile.TemporaryFile() as log:
        try:
            child = subprocess.Popen(
                argv, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                env=dict(os.environ, **(extra or {})),
            )  # fmt: skip
        except OSError as error:
            return 127, "%s: %s" % (argv[0], error)
        try:
            code = child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            code = 124
        log.seek(0)
        text = log.read().decode(errors="replace")
    return code, text + ("\nno end after %d s" % limit if code == 124 else "")


def seconds(name):
    return LIMIT.get(name, 300)


def program(name, extension=""):
    own = os.path.join(HERE, "%s_%s.py" % (name, extension))
    return [sys.executable, "-B", own if os.path.exists(own) else os.path.join(HERE, name + ".py")]


def single(name, target, words, lent):
    own = words[0] if name == "built" else ""
    code, text = run([*program(name, own), target, *words], seconds(name), lent)
    if code == 0 and os.path.exists(target):
        return None
    return {"error": "exit code %d" % code, "output": text[-TAIL:]}


def meeting_point():
    """For ranks that connect by themselves: Gloo asks which interface, and the launcher gives a port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return {"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": str(found.getsockname()[1])}


def mpi(count):
    """Return the command of ranks. Open MPI refuses root without two variables, which MPICH does not read."""
    extra = {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi", "OMP_NUM_THREADS": "1",
             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
             "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
             **meeting_point()}  # fmt: skip
    _, version = run(["mpirun", "--version"], 60, extra)
    openmpi = ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in version else []
    return ["mpirun", "-np", str(count), *openmpi], extra


def gloo(count):
    launcher = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    hosts = ["-H", "localhost:%d" % count, "--network-interfaces", "lo"]
    return [launcher, "--gloo", "-np", str(count), *hosts], {"OMP_NUM_THREADS": "1"}


def torchrun(count):
    launcher = os.path.join(os.path.dirname(sys.executable), "torchrun")
    where = meeting_point()
    argv = [launcher, "--nproc-per-node", str(count), "--master-addr", "127.0.0.1",
            "--master-port", where["MASTER_PORT"], "--no-python"]  # fmt: skip
    return argv, {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def srun(count):
    return [*program("slurm_ranks"), str(count)], dict(meeting_point(), OMP_NUM_THREADS="1")


def resolves(name):
    """Horovod 0.28.1 makes its second Gloo device from the host's name, and crashes if that has no address
    (gloo_context.cc, InitializeForProcessSet: the interface is not passed on)."""
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


LAUNCHERS = {"mpi": mpi, "gloo": gloo, "torchrun": torchrun, "srun": srun}


def left_in(folder):
    """What each rank wrote."""
    found = []
    for leaf in sorted(os.listdir(folder)):
        with open(os.path.join(folder, leaf)) as handle:
            found.append(json.load(handle))
    return found


def ranks(name, launcher, count, extension, lent):
    """Start ``count`` processes of a probe and gather what each rank wrote."""
    prefix, extra = LAUNCHERS[launcher](count)
    with tempfile.TemporaryDirectory() as folder:
        argv = prefix + program(name, extension) + [folder, extension]
        code, text = run(argv, seconds(name), dict(extra, **lent))
        found = left_in(folder)
    facts = {"argv": prefix, "asked": count, "code": code, "ranks": found}
    if launcher == "gloo":
        facts["hostname_resolves"] = resolves(socket.gethostname())
    if code or not found:
        facts.update(error="%s ended with exit code %d" % (prefix[0], code), output=text[-TAIL:])
    return facts


def probe(word, folder):
    name, _, argument = word.partition("=")
    leaf = name if name in LISTS else word.replace("=", "-").replace("/", "-")
    target = os.path.join(folder, leaf + ".json")
    if name == "collective":
        extension, launcher = argument.split("/")
        facts = ranks(name, launcher, RANKS, extension, driver.environment(extension))
    elif name == "gpu":
        extension, count = argument.split("/")
        facts = ranks(name, "mpi", int(count), extension, {})
    else:
        lent = driver.environment(argument) if name == "built" else {}
        facts = single(name, target, [item for item in argument.split(",") if item], lent)
    if facts is not None:
        with open(target, "w") as handle:
            json.dump(facts, handle, indent=1, sort_keys=True)


def main(folder, words):
    times = {}
    for word in words:
        start = time.time()
        probe(word, folder)
        name = word.partition("=")[0]
        times[name if name in LISTS else word] = round(time.time() - start, 2)
    with open(os.path.join(folder, "times-%s.json" % words[0].partition("=")[0]), "w") as handle:
        json.dump(times, handle, indent=1, sort_keys=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
