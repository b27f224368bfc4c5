"""Each fault of nccl-tests is planted, and exactly the check that is meant for it goes red.

The loader and the compiler are real; NCCL, MPI and the program are stand-ins. The real programs are proven in
the row of matrix.fabrics.yaml.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import small_debian
from image_facts import NCCL, ROW, docker_facts, failed

from stackwright.core.benchmarks.checks import RULES

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "tests" / "support" / "engine" / "benchmarks"
PACKAGES = ("gcc", "libc6-dev", "libfabric-bin", "libfabric1", "python3-minimal", "libpython3-stdlib")
BEFORE = rf"""
set -euo pipefail
own={Path(NCCL).parent}
mkdir -p "$own" /opt/other /opt/elsewhere
cd /tmp
echo 'int ncclGetVersion(int *found) {{ *found = 22105; return 0; }}' > nccl.c
echo 'int MPI_Init(int *count, char ***words) {{ return 0; }}' > mpi.c
gcc -shared -fPIC -Wl,-soname,libnccl.so.2 nccl.c -o "$own/libnccl.so.2"
gcc -shared -fPIC -Wl,-soname,libmpi.so.40 mpi.c -o /usr/lib/libmpi.so.40
gcc -shared -fPIC -Wl,-soname,libmpich.so.12 mpi.c -o /usr/lib/libmpich.so.12
gcc -shared -fPIC -Wl,-soname,libgone.so.1 mpi.c -o /tmp/libgone.so.1
cp "$own/libnccl.so.2" /usr/lib/libmpi.so.40 /opt/other
echo "$own" > /etc/ld.so.conf.d/stackwright.conf
ldconfig
export LIBRARIES="$own/libnccl.so.2 /usr/lib/libmpi.so.40"
gcc -DNEWEST=90 /stand-ins/program.c -o /tmp/good $LIBRARIES
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``words`` compile the stand-in, ``libraries`` take the place of the row's, ``after`` is done to it."""

    name: str
    red: str
    says: str
    words: tuple[str, ...] = ()
    libraries: str = "$own/libnccl.so.2 /usr/lib/libmpi.so.40"
    after: str = ""


PLACE, LIBRARIES = "nccl-tests", "nccl-tests-libraries"
FAULTS = (
    Fault(name="not-there", words=("none",), red=PLACE, says="all_reduce_perf is not there, and not"),
    Fault(name="elsewhere", after="mv /usr/local/bin/all_reduce_perf /opt/elsewhere", red=PLACE,
          says="all_reduce_perf is /opt/elsewhere/all_reduce_perf, and not"),
    Fault(name="unresolved", libraries="$own/libnccl.so.2 /usr/lib/libmpi.so.40 -Wl,--no-as-needed "
          "/tmp/libgone.so.1", red=PLACE, says="all_reduce_perf needs libgone.so.1"),
    Fault(name="static-nccl", libraries="/tmp/nccl.c /usr/lib/libmpi.so.40", red=LIBRARIES,
          says="all_reduce_perf loads no libnccl"),
    Fault(name="other-nccl", words=("-Wl,-rpath,/opt/other",), red=LIBRARIES,
          says="all_reduce_perf loads /opt/other/libnccl.so.2, the frameworks"),
    Fault(name="without-mpi", libraries="$own/libnccl.so.2 /tmp/mpi.c", red=LIBRARIES, says="loads no MPI"),
    Fault(name="other-mpi", libraries="$own/libnccl.so.2 /usr/lib/libmpich.so.12", red=LIBRARIES,
          says="loads /usr/lib/libmpich.so.12, and not libmpi"),
    Fault(name="two-mpis", libraries="$own/libnccl.so.2 /usr/lib/libmpi.so.40 -Wl,--no-as-needed "
          "/usr/lib/libmpich.so.12", red=LIBRARIES, says="libmpich.so.12, and not libmpi"),
    Fault(name="another-gpu", words=("-UNEWEST", "-DNEWEST=86"), red="nccl-tests-gpu-arch",
          says="no kernels for 9.0, only for 7.0, 8.0, 8.6"),
    Fault(name="no-kernels", after="objcopy --remove-section .nv_fatbin /usr/local/bin/all_reduce_perf",
          red="nccl-tests-gpu-arch", says="no kernels for 7.0, 8.0, 9.0, only for none"),
    Fault(name="another-release", words=('-DRELEASE="2.18.3"',), red="nccl-tests-release",
          says="of nccl-tests 2.18.3, the row has 2.19.6"),
    Fault(name="no-start", words=("-DENDS=3",), red="nccl-tests-release",
          says="all_reduce_perf -h: exit code 3"),
)  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the probe finds of each stand-in, by the fault's name; of the good one under "good"."""
    lines = [BEFORE, "bash /stand-ins/probe.sh good"]
    for fault in FAULTS:
        lines.append(f'export LIBRARIES="{fault.libraries}" AFTER={shlex.quote(fault.after)}')
        lines += [
            "rm -f /opt/elsewhere/*",
            f"bash /stand-ins/probe.sh {fault.name} {shlex.join(fault.words)}",
        ]
    return small_debian.probed(lines, STAND_INS, PACKAGES, tmp_path_factory.mktemp("debian"))


def red(facts: Any) -> dict[str, str]:
    return failed({**docker_facts(ROW), "benchmarks": facts})


def test_the_good_one_is_green(found: Mapping[str, Any]) -> None:
    assert red(found["good"]) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found_by_its_check(fault: Fault, found: Mapping[str, Any]) -> None:
    told = red(found[fault.name])
    assert set(told) == {f"link.{fault.red}"}
    assert fault.says in told[f"link.{fault.red}"]


def test_every_check_has_a_fault() -> None:
    assert {f"link.{fault.red}" for fault in FAULTS} == {rule.id for rule in RULES}
