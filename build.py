#!/usr/bin/env python3
"""The front door: finds the project's environment and hands over to the package's command line."""

import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until there is who answers it: cli/entry.py

import os  # noqa: E402 (an interrupt while it is imported would be a traceback)
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"

if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():  # either may be a link
    if not PYTHON.exists():
        sys.exit("build.py: the Python environment is not there\n  next: make env")
    os.execv(PYTHON, [str(PYTHON), str(ROOT / "build.py"), *sys.argv[1:]])  # noqa: S606 (its own interpreter)

from stackwright.cli.entry import start  # noqa: E402 (only the environment has what it imports)

start()
