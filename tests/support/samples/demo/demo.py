"""Two ranks of the trial layer, in processes of their own: what each gave and what it received.

Usage: demo.py TARGET; leaves TARGET, or is one rank: demo.py RANK SIZE PORT
"""

from __future__ import annotations

import importlib
import json
import pathlib
import socket
import subprocess
import sys

SIZE = 2


def rank(number: int, size: int, port: int) -> None:
    given = [float(10**number), float(number)]
    total = importlib.import_module("demo").allreduce(given, number, size, port)
    print(json.dumps({"rank": number, "given": given, "sum": total}))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def main(target: str) -> None:
    port = str(free_port())
    argv = [sys.executable, "-B", "-P", __file__]
    started = [
        subprocess.Popen([*argv, str(number), str(SIZE), port], stdout=subprocess.PIPE)
        for number in range(SIZE)
    ]
    ranks = [json.loads(one.communicate(timeout=60)[0]) for one in started]
    pathlib.Path(target).write_text(json.dumps({"ranks": ranks}))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        rank(*(int(word) for word in sys.argv[1:]))
