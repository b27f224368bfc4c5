"""What was found on GPUs, judged: a record in JSON, and lines for docs/results. Pure but for ``write``."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.gpu.compile import Horovod
from bench.gpu.host import Host

VERSION = 1
TOLERANCE = 1e-4
SHOWN = 400
"""Characters of what a program said."""
MIB = 2**20
NAMES = {"horovod": "Horovod", "torch_distributed": "torch.distributed", "nccl_tests": "nccl-tests"}


def made(host: Host, horovod: Horovod, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record. It names no host, and no path of it."""
    checks = [_check(name, problems) for name, problems in judged(host, facts)]
    return {
        "version": VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "verdict": "passed" if all(check["outcome"] == "passed" for check in checks) else "failed",
        "driver": {"version": host.driver.version, "cuda": host.driver.cuda},
        "devices": [{"name": gpu.name, "capability": gpu.capability} for gpu in host.driver.devices],
        "versions": {
            "python": platform.python_version(), "torch": host.torch, "cuda": host.cuda, "nvcc": host.nvcc,
            "nccl": host.nccl, "gcc": host.gcc, "horovod": horovod.release,
        },
        "patches": list(horovod.patches),
        "compile_seconds": round(horovod.seconds, 1),
        "checks": checks,
        "benchmark": benchmark(facts),
    }  # fmt: skip


def _check(name: str, problems: Sequence[str]) -> dict[str, str]:
    return {"id": name, "outcome": "failed" if problems else "passed", "detail": "; ".join(problems)}


# -- judgement -------------------------------------------------------------------------------------


def judged(host: Host, facts: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield each check with what is wrong."""
    for way in ("horovod", "torch_distributed"):
        found = facts[way]
        yield f"{way}.run", ended(found)
        yield f"{way}.allreduce", wrong_sums(found["ranks"])
    yield "nccl.one", other_nccl(facts["horovod"]["ranks"], host.nccl)
    yield "kernels", other_devices(facts["horovod"]["ranks"], host.driver.architectures)
    yield "benchmark", wrong_benchmark(facts["benchmark"])


def on_the_cpu(host: Host, facts: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the checks of a compile without a device."""
    built = facts["built"]
    code = built.get("nccl_built", 0)
    wrong = [] if code == nccl_code(host.nccl) else [f"nccl_built() is {code}, and PyTorch has {host.nccl}"]
    if "error" in built:
        wrong = [f"{built['error']}: {built.get('output', '')[-300:]}"]
    loaded = (built.get("libraries") or {}).get("nccl") or {}
    other = not Path(str(loaded.get("path"))).is_relative_to(host.nvidia.resolve())
    return [
        _check("horovod.built", wrong),
        _check("nccl.one", [f"Horovod loads {loaded.get('path')}, and not PyTorch's NCCL"] if other else []),
        _check("horovod.collective", ended(facts["collective"])),
        _check("benchmark", wrong_benchmark(facts["benchmark"])),
    ]


def ended(found: Mapping[str, Any]) -> list[str]:
    if found["code"] == 0 and len(found["ranks"]) == found["asked"]:
        return []
    said = why(str(found.get("output", "")))
    return [f"{len(found['ranks'])} of {found['asked']} ranks answered, exit code {found['code']}: {said}"]


def why(output: str) -> str:
    """Return the error that a rank ended with, and not that of the launcher, which comes last."""
    for ranks in (r"\[\d+\]<stderr>: ?", ""):
        raised = re.findall(rf"^{ranks}([A-Za-z_][\w.]*(?:Error|Exception)\b.*)$", output, re.MULTILINE)
        if raised:
            return str(raised[-1])[:SHOWN]
    return " ".join(output.split())[-SHOWN:]


def wrong_sums(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    if not ranks:
        return ["no rank left a result"]
    total = [sum(column) for column in zip(*(rank["given"] for rank in ranks), strict=True)]
    found = []
    for rank in ranks:
        if rank["device"] != "cuda":
            found.append(f"rank {rank['rank']} has its result on {rank['device']}")
        near = (abs(is_ - due) <= TOLERANCE * due for is_, due in zip(rank["sum"], total, strict=True))
        if rank["size"] != len(ranks) or not all(near):
            found.append(f"rank {rank['rank']} of {rank['size']} has the sum {rank['sum']}, and not {total}")
    return found


def nccl_code(version: str) -> int:
    """NCCL_VERSION_CODE of nccl.h since 2.9: 2.28.9 is 22809."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * 10000 + minor * 100 + patch


def other_nccl(ranks: Sequence[Mapping[str, Any]], version: str) -> list[str]:
    wanted = nccl_code(version)
    if not ranks:
        return ["no rank left a result"]
    return [
        f"rank {rank['rank']}: Horovod was compiled with NCCL {rank['nccl']}, and PyTorch's is {wanted}"
        for rank in ranks
        if rank["nccl"] != wanted
    ]


def other_devices(ranks: Sequence[Mapping[str, Any]], compiled_for: Sequence[str]) -> list[str]:
    seen = {text.replace(".", "") for rank in ranks for text in rank["capabilities"]}
    if not seen:
        return ["PyTorch sees no GPU"]
    return [
        f"PyTorch sees a GPU of {capability}, which is not compiled for"
        for capability in sorted(seen - {*compiled_for})
    ]


def wrong_benchmark(found: Mapping[str, Any]) -> list[str]:
    wrong = [
        f"rank {rank['rank']}: a sum of {line['bytes']} bytes is wrong"
        for rank in found["ranks"]
        for line in rank["sizes"]
        if not line["right"]
    ]
    return wrong + ended(found)


# -- benchmark ---------------------------------------------------------------------------------------


def benchmark(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each size: seconds, speeds, and each way's share of the copy's speed.

    Of several ranks the slowest counts. ``bus`` is the speed that nccl-tests calls busbw: what each link has
    to carry, whatever the number of ranks.
    """
    ranks = facts["benchmark"]["ranks"]
    return [
        _line(lines, len(ranks), facts["nccl_tests"])
        for lines in zip(*(r["sizes"] for r in ranks), strict=True)
    ]


def _line(lines: Sequence[Mapping[str, Any]], ranks: int, said: Mapping[str, str]) -> dict[str, Any]:
    size = lines[0]["bytes"]
    seconds = {way: max(line["seconds"][way] for line in lines) for way in lines[0]["seconds"]}
    in_place = nccl_tests_seconds(said.get(str(size), ""), size)
    if in_place is not None:
        seconds["nccl_tests"] = in_place
    copy = seconds["copy"]
    sums = {way: took for way, took in seconds.items() if way != "copy"}
    carried = 2 * (ranks - 1) / ranks if ranks > 1 else 1
    return {
        "bytes": size,
        "seconds": {way: float(f"{took:.4g}") for way, took in seconds.items()},
        "copy_gb_per_second": _rounded(size / copy / 1e9),
        "bus_gb_per_second": {way: _rounded(size * carried / took / 1e9) for way, took in sums.items()},
        "of_copy": {way: _rounded(copy * carried / took) for way, took in sums.items()},
        "horovod_of_torch_distributed": _rounded(sums["torch_distributed"] / sums["horovod"]),
    }  # fmt: skip


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


def nccl_tests_seconds(said: str, size: int) -> float | None:
    """Return the time in place that all_reduce_perf prints for a size; None where it prints none.

    Columns (nccl-tests, README.md): size, count, type, redop, root, then time, algbw, busbw and #wrong,
    first out of place and then in place.
    """
    for line in said.splitlines():
        words = line.split()
        if len(words) == 13 and words[0] == str(size) and re.fullmatch(r"\d+(\.\d+)?", words[9]):
            return float(words[9]) / 1e6
    return None


# -- for people ----------------------------------------------------------------------------------------


def markdown(record: Mapping[str, Any]) -> str:
    """Return the line and the table that docs/results takes."""
    has = record["versions"]
    devices = sorted({device["name"] for device in record["devices"]})
    failed = [
        f"{check['id']}: {check['detail']}" for check in record["checks"] if check["outcome"] != "passed"
    ]
    lines = [
        "| day | GPUs | driver | PyTorch | CUDA, nvcc | NCCL | Python | Horovod, patches | compile "
        "| verdict |",
        "|---" * 10 + "|",
        f"| {record['date'][:10]} | {len(record['devices'])} × {', '.join(devices)} "
        f"| {record['driver']['version']} | {has['torch']} | {has['cuda']}, {has['nvcc']} | {has['nccl']} "
        f"| {has['python']} | {has['horovod']}, {len(record['patches'])} | {record['compile_seconds']:.0f} s "
        f"| {record['verdict']} |",
        "",
        *(f"- failed: {text}" for text in failed),
        *([""] if failed else []),
        *_table(record["benchmark"]),
    ]
    return "\n".join(lines)


def _table(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not lines:
        return
    ways = list(lines[0]["of_copy"])
    heads = (f"{NAMES[way]}, share of the copy's speed" for way in ways)
    yield f"| size | copy on the device | {' | '.join(heads)} | Horovod to torch.distributed |"
    yield "|---|---|---|" + "---|" * len(ways)
    for line in lines:
        shown = (f"{line['seconds'][way] * 1e6:.0f} µs, {line['of_copy'][way]:g}" for way in ways)
        copy = f"{line['seconds']['copy'] * 1e6:.0f} µs, {line['copy_gb_per_second']:g} GB/s"
        ratio = f"{line['horovod_of_torch_distributed']:g}"
        yield f"| {_size(line['bytes'])} | {copy} | {' | '.join(shown)} | {ratio} |"


def _size(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"


def write(record: Mapping[str, Any], out: Path) -> tuple[Path, Path]:
    """Write record and lines under names of their own, so that an earlier run is kept."""
    stem = "record-" + re.sub(r"[^0-9]", "", record["date"].partition("+")[0])
    document, lines = out / f"{stem}.json", out / f"{stem}.md"
    for path, text in ((document, json.dumps(record, indent=1, sort_keys=True)), (lines, markdown(record))):
        draft = path.with_name(f".{path.name}")
        draft.write_text(text + "\n")
        draft.rename(path)
    return document, lines
