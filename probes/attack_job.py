"""Attacks the server of a job that Horovod itself started on loopback, from a process of that job.

The launchers are those behind ``horovodrun --gloo``; its own beginning asks which frameworks Horovod was
built with, which takes longer than all of this.
Usage: attack_job.py static|elastic TARGET.json starts a job; attack_job.py rank TARGET.json is its rank.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile

from attack_http import Client, served
from attack_tools import INTERFACE, LOOPBACK, Request, Signer, listening, status, written

PATIENCE = 60
"""Seconds for a job."""
KEY = "_HOROVOD_SECRET_KEY"


def settings():
    from horovod.runner.common.util.timeout import Timeout

    return dict(
        verbose=0, key=secrets.token_bytes(32), nics=[INTERFACE], num_proc=1,
        start_timeout=Timeout(PATIENCE, "no end of {activity}"),
    )  # fmt: skip


def static(command):
    from horovod.runner.common.util.settings import Settings
    from horovod.runner.gloo_run import gloo_run

    gloo_run(Settings(hosts="localhost:1", **settings()), [INTERFACE], dict(os.environ), LOOPBACK, command)


def elastic(command):
    from horovod.runner.elastic.discovery import FixedHosts
    from horovod.runner.elastic.settings import ElasticSettings
    from horovod.runner.gloo_run import gloo_run_elastic

    of_job = dict(
        discovery=FixedHosts({"localhost": 1}), min_num_proc=1, max_num_proc=1, elastic_timeout=PATIENCE,
        reset_limit=1, **settings(),
    )  # fmt: skip
    gloo_run_elastic(ElasticSettings(**of_job), dict(os.environ), command, sys.executable)


def rank():
    """Return what a process of the job sees of it, and what a program without its key could do."""
    port = int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    text = os.environ.get(KEY, "")
    key = bytes.fromhex(text) if len(text) == 64 else b""
    put = Request("PUT", "probe", "kept", b"d3Jvbmc=")
    return {
        "address": os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
        "listens": listening(port),
        "has key": bool(key),
        "key in command lines": revealing(text) if key else [],
        "served": served(Client(port, key), "probe", "kept"),
        "attacks": {
            "unsigned GET": status(port, written(put._replace(method="GET", body=b""), {})),
            "unsigned PUT": status(port, written(put, {})),
            "other key PUT": status(port, written(put, Signer(secrets.token_bytes(32)).headers(port, put))),
        },
    }


def revealing(secret):
    """Programs with the key in their command line, which every user of the host can read."""
    found = []
    for process in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % process) as handle:
                words = handle.read().split("\0")
        except (OSError, UnicodeError):
            continue  # no process, or one that ended
        if any(secret in word for word in words):
            found.append(words[0])
    return found


def started(kind):
    """What the rank of a job found, which is started in a process of its own: it sets handlers of signals."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        target = os.path.join(folder, "rank.json")
        argv = [sys.executable, "-B", os.path.abspath(__file__), kind, target]
        both = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        done = subprocess.run(argv, timeout=PATIENCE, check=False, **both)
        if not os.path.exists(target):
            last = done.stdout.decode(errors="replace").strip().splitlines()[-1:]
            return {"error": " ".join(["the job ended with code %d" % done.returncode, *last])}
        with open(target) as handle:
            return dict(json.load(handle), code=done.returncode, logged=done.stdout.count(b"refused "))


JOBS = {"static": static, "elastic": elastic}


def main(kind, target):
    if kind in JOBS:
        JOBS[kind]([sys.executable, "-B", os.path.abspath(__file__), "rank", target])
        return
    with open(target, "w") as handle:
        json.dump(rank(), handle)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
