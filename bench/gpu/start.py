"""Proves Horovod and NCCL on the GPUs of this host: what `make gpu` starts. docs/gpu.md says what it does.

    python3 bench/gpu/start.py [--source FILE] [--wheels FOLDER] [--without-engine]

It is a program of its own and no command of build.py: a host with a GPU may have no network to install from
what build.py needs. Without an engine it gets by with the standard library, and with what the Python that
holds PyTorch has anyway.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (a host's own Python may be older, and says so in a line)
    sys.stderr.write(f"not run: Python {sys.version.split()[0]} is too old, and 3.11 or later is needed\n")
    sys.exit(19)

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import compile, host, images, record  # noqa: E402 (after the check of Python itself)
from bench.gpu.host import Host  # noqa: E402
from stackwright.core.errors import GpuError, StackwrightError, UsageError, VerdictError  # noqa: E402


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make gpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, metavar="FILE", help="Horovod's released source archive")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels of what this Python lacks")
    parser.add_argument("--without-engine", action="store_true", help="ask no container engine")
    parser.add_argument(
        "--compile-only", metavar="ARCH", default="",
        help="compile for an architecture, as in 9.0, and run on the CPU; needs no GPU, and records nothing",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=ROOT / "out" / "gpu")
    return parser


def checked(asked: argparse.Namespace) -> argparse.Namespace:
    """Return the options with whole paths, or raise UsageError."""
    if asked.source and not asked.source.is_file():
        raise UsageError(f"there is no file {asked.source}", place="--source")
    if asked.wheels and not asked.wheels.is_dir():
        raise UsageError(f"there is no folder {asked.wheels}", place="--wheels")
    if asked.compile_only and not re.fullmatch(r"[1-9]\d?\.\d", asked.compile_only):
        raise UsageError(
            f"{asked.compile_only!r} is no architecture", place="--compile-only", hint="as in 9.0"
        )
    for name in ("source", "wheels", "out"):
        path = getattr(asked, name)
        setattr(asked, name, path.resolve() if path else None)
    return asked


def work(asked: argparse.Namespace) -> int:
    """Prove what can be proven here, and return the exit code. GpuError says what is missing."""
    if asked.compile_only:
        return _compiled_only(asked)
    driver = host.driver()
    code = None if asked.without_engine else images.prove(asked.out)
    if code is not None:
        return code
    found = host.look(driver, asked.wheels)
    horovod = compile.horovod(found, source=asked.source, wheels=asked.wheels, out=asked.out)
    facts = compile.prove(horovod, asked.out, count=len(driver.devices), device="cuda")
    made = record.made(found, horovod, facts)
    for path in record.write(made, asked.out):
        print(f"make gpu: wrote {path}")
    print(record.markdown(made))
    return 0 if made["verdict"] == "passed" else VerdictError.exit_code


def _compiled_only(asked: argparse.Namespace) -> int:
    found: Host = host.look(host.for_architecture(asked.compile_only), asked.wheels)
    horovod = compile.horovod(found, source=asked.source, wheels=asked.wheels, out=asked.out)
    checks = record.on_the_cpu(found, compile.prove(horovod, asked.out, count=2, device="cpu"))
    for check in checks:
        print(f"make gpu: {check['id']}: {check['outcome']} {check['detail']}".rstrip())
    print("make gpu: compiled, and run on the CPU alone: nothing was recorded")
    return 0 if all(check["outcome"] == "passed" for check in checks) else VerdictError.exit_code


def main(words: Sequence[str]) -> int:
    try:
        return work(checked(options().parse_args(words)))
    except GpuError as missing:
        sys.stderr.write("".join(f"not run: {line}\n" for line in (missing.cause, *missing.details)))
        return missing.exit_code
    except StackwrightError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
