"""How Horovod is built for an image: from its released source, with patches, into a wheel that rows share."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from stackwright.core.components.component import Build
from stackwright.core.components.horovod.rules import COMPILED
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.row import Stack
from stackwright.core.render.sources import Sources

SCRIPT = "scripts/build-horovod.sh"
NAMES = {framework.name: dict(framework.called)["horovod"] for framework in COMPILED}
"""What Horovod calls a framework."""


def extensions(stack: Stack) -> tuple[str, ...]:
    """The frameworks of the row that Horovod is compiled for."""
    return tuple(name for name in stack.modules if name in NAMES)


def _context(stack: Stack, sources: Sources) -> dict[str, bytes]:
    version = dict(stack.communication)["horovod"]
    files = {
        "horovod/build-horovod.sh": dict(sources.files)[SCRIPT],
        "horovod/source.txt": f"horovod=={version} --hash=sha256:{sources.series.sha256}\n".encode(),
    }
    for number, content in enumerate(_patches(stack, sources)):
        files[f"horovod/patches/{number:02d}-{stack.patches[number]}"] = content
    return files


def _values(stack: Stack, sources: Sources) -> dict[str, Any]:
    return {
        "horovod_frameworks": " ".join(NAMES[name] for name in extensions(stack)),
        "wheel_key": wheel_key(stack, sources),
    }


def wheel_key(stack: Stack, sources: Sources) -> str:
    """Digest of all that Horovod's wheel depends on, and of nothing else: 64 hexadecimal digits.

    Two images with other packages around the same frameworks share one wheel.
    """
    parts = {
        "horovod": sources.series.sha256,
        "patches": [hashlib.sha256(content).hexdigest() for content in _patches(stack, sources)],
        "script": hashlib.sha256(dict(sources.files)[SCRIPT]).hexdigest(),
        "frameworks": stack.frameworks,
        "cuda": [stack.cuda, stack.cuda_runtime, [asdict(package) for package in stack.lock.toolchain]],
        "nccl": stack.nccl,
        "mpi": asdict(stack.mpi),
        "gcc": stack.gcc,
        "python": stack.python,
        "os": stack.os,
        "gpu_arch": stack.gpu_arch,
        "cpu_flags": stack.platform.cpu_flags,
        "source_date_epoch": EPOCH,  # the time of every file in the wheel
        **({"environment": list(map(str, stack.build_env))} if stack.build_env else {}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _patches(stack: Stack, sources: Sources) -> list[bytes]:
    content = {patch.file: patch.content for patch in sources.series.patches}
    return [content[name] for name in stack.patches]


BUILD = Build(
    folder="horovod",
    context=_context,
    values=_values,
    stage="horovod.j2",
    install="horovod-install.j2",
    steps="steps/horovod.j2",
    files=(SCRIPT,),
)
