"""Attacks the servers of the installed Horovod, each with a payload that does no harm.

The real servers run in this process, on loopback, and get requests from a client without the job's key:
CVE-2024-10190, CVE-2026-31234 and similar ones. A payload is a pickle that makes an empty
folder. What the job itself may do goes by Horovod's own clients. A Horovod without signatures is attacked in
the same way.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: attack.py FACTS.json
"""

import json
import logging
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor

import attack_http
import attack_job
import attack_messages

ATTACKS = {
    "servers": {
        "rendezvous": attack_http.rendezvous, "elastic": attack_http.elastic,
        "key-value": attack_http.key_value,
    },
    "services": {
        "task": attack_messages.task, "driver": attack_messages.driver, "worker": attack_messages.worker,
    },
}  # fmt: skip


def attacked(function, argument):
    """What an attack found. A server that does not even start is an error of its own, and hides no other."""
    try:
        return function(argument)
    except Exception as error:
        return {"error": "%s: %s" % (type(error).__name__, error)}


def main():
    logging.disable(logging.CRITICAL)  # a refused request is logged, and that is what happens here
    with ThreadPoolExecutor(8) as pool:  # a server without the patches lets its client wait
        started = {
            kind: {
                name: pool.submit(attacked, function, secrets.token_bytes(32))
                for name, function in functions.items()
            }
            for kind, functions in ATTACKS.items()
        }
        started["jobs"] = {name: pool.submit(attacked, attack_job.started, name) for name in attack_job.JOBS}
        return {
            kind: {name: future.result() for name, future in futures.items()}
            for kind, futures in started.items()
        }


if __name__ == "__main__":
    with open(sys.argv[1], "w") as handle:
        json.dump(main(), handle, indent=1, sort_keys=True)
