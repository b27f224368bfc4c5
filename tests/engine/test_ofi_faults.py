"""Each fault of NCCL's plugin for libfabric is planted, and exactly the check that is meant for it goes red.

Debian's libfabric and its programs are real; NCCL, its plugin and the CUDA runtime are stand-ins. The real
plugin is proven in the row of matrix.fabrics.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import small_debian
from image_facts import ROW, docker_facts, failed

from stackwright.core.ofi.checks import RULES

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "tests" / "support" / "engine" / "ofi"
PACKAGES = ("gcc", "libc6-dev", "libfabric-bin", "libfabric1", "python3-minimal", "libpython3-stdlib")
GOOD = ("-DNET=8", "-DALL")
BEFORE = r"""
set -euo pipefail
cd /tmp
for net in 8 7 6 5; do echo "const char v$net[] = \"ncclNetPlugin_v$net\";"; done > nccl.c
echo 'int cudaRuntimeGetVersion(int *found) { *found = 12040; return 0; }' > cudart.c
gcc -shared -fPIC -Wl,-soname,libnccl.so.2 nccl.c -o /usr/local/lib/libnccl.so.2
gcc -shared -fPIC -Wl,-soname,libcudart.so.12 cudart.c -o /usr/local/lib/libcudart.so.12
ln -s libcudart.so.12 /usr/local/lib/libcudart.so
printf '#!/bin/sh\necho mca:mtl:ofi:version:1\n' > /usr/local/bin/ompi_info
chmod +x /usr/local/bin/ompi_info
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``words`` compile the stand-in; ``red`` is the check of tier link that has to see it, ``says`` what it
    tells."""

    name: str
    words: tuple[str, ...]
    red: str
    says: str
    before: str = ""


FAULTS = (
    Fault(name="another-abi", words=("-DNET=3",), red="ofi-abi", says="NCCL asks for v5 v6 v7 v8, and"),
    Fault(name="one-interface", words=("-DNET=8",), red="ofi-abi", says="it has v8, release 1.21.1 v6"),
    Fault(name="no-plugin", words=("none",), red="ofi-plugin", says="cannot open shared object file"),
    Fault(name="unresolved", words=(*GOOD, "-DNEEDS=no_such_name"), red="ofi-plugin", says="no_such_name"),
    Fault(name="another", words=(*GOOD, '-DRELEASE="1.17.3"'), red="ofi-plugin", says="1.17.3, the row"),
    Fault(name="no-start", words=(*GOOD, "-DINIT=3"), red="ofi-start", says="function 1 of the plugin"),
    Fault(name="no-device", words=(*GOOD, "-DDEVICES=0"), red="ofi-start", says="finds no network device"),
    Fault(name="no-connection", words=(*GOOD, "-DLATE"), red="ofi-data", says="function 6 of the plugin"),
    Fault(name="another-byte", words=(*GOOD, "-DTURNED"), red="ofi-data", says="1048575 of 1048576 bytes"),
    Fault(name="no-mtl", words=GOOD, red="mpi-ofi", says="no mtl for libfabric",
          before="mv /usr/local/bin/ompi_info /tmp"),
    Fault(name="no-libfabric", words=GOOD, red="libfabric", says="libfabric.so.1 does not load",
          before="mv /tmp/ompi_info /usr/local/bin; rm /usr/lib/*/libfabric.so.1*"),
)  # fmt: skip
"""In this order: the last ones take away what the others need."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the probe finds of each stand-in, by the fault's name; of the good one under "good"."""
    lines = [BEFORE, f"bash /stand-ins/probe.sh good {' '.join(GOOD)}"]
    for fault in FAULTS:
        words = " ".join(f"'{word}'" for word in fault.words)
        lines += [fault.before, f"bash /stand-ins/probe.sh {fault.name} {words}"]
    return small_debian.probed(lines, STAND_INS, PACKAGES, tmp_path_factory.mktemp("debian"))


def red(facts: Any) -> dict[str, str]:
    return failed({**docker_facts(ROW), "ofi": facts})


def test_the_good_one_is_green(found: Mapping[str, Any]) -> None:
    assert red(found["good"]) == {}
    assert found["good"]["start"]["lent"] and found["good"]["data"]["bytes"] == 2**20


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found_by_its_check(fault: Fault, found: Mapping[str, Any]) -> None:
    told = red(found[fault.name])
    assert set(told) == {f"link.{fault.red}"}
    assert fault.says in told[f"link.{fault.red}"]


def test_every_check_has_a_fault() -> None:
    assert {f"link.{fault.red}" for fault in FAULTS} == {rule.id for rule in RULES}
