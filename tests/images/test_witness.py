"""A second witness for the static tier: testinfra looks at the container or the SIF, without our probes.

Each test names the checks that it doubles. Where one of them failed, the test may fail too: that is
nothing new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from stackwright.core.checks.check import same_release
from stackwright.core.checks.tables.static import APPTAINER_LIBRARIES
from stackwright.core.model.row import Stack
from stackwright.core.model.target import ARM64
from stackwright.core.render.dockerfile import declared

Property = Callable[[str, object], None]


@pytest.mark.docker_only
def test_default_user_is_not_root(host: Any, record_property: Property) -> None:
    record_property("doubles", "static.user")
    record_property("why", "A container that is root by default can write to what it mounts as root.")
    assert host.user().uid != 0
    assert host.user().name


@pytest.mark.parametrize("name", ["/etc/ssh/ssh_host_*", "/root/.ssh/*", "/home/*/.ssh/*"])
def test_no_key_of_ssh(root_host: Any, name: str, record_property: Property) -> None:
    record_property("doubles", "static.host-key, static.private-key, ledger.undeclared, ledger.credentials")
    record_property("why", "A key inside an image is known to everyone who pulls it.")
    assert root_host.run(f"ls -A {name} 2>/dev/null").stdout == ""


@pytest.mark.parametrize("name", ["/root/.cache", "/etc/pip.conf", "/etc/apt/sources.list"])
def test_nothing_of_the_build_is_left(root_host: Any, name: str, record_property: Property) -> None:
    record_property("doubles", "static.pip-cache, static.site-config, ledger.undeclared")
    record_property(
        "why", "Caches make the image larger, and configuration of the build site is not ours to ship."
    )
    found = root_host.file(name)
    assert not found.exists or found.size == 0 or root_host.run(f"find {name} -type f").stdout == ""


def test_row_is_in_the_image(host: Any, stack: Stack, record_property: Property) -> None:
    record_property("doubles", "static.row-file")
    record_property("why", "Who is inside the image reads the row that it was made from.")
    inside = host.file("/etc/stackwright/row.json")
    assert inside.user == "root"
    assert json.loads(inside.content_string) == declared(stack)


@pytest.mark.parametrize("name", ["gcc", "g++", "mpirun", "ssh", "tini"])
def test_program_is_there(host: Any, name: str, record_property: Property) -> None:
    record_property("doubles", "static.compiler, static.ssh, static.init, declared.mpi")
    record_property("why", "torch.compile needs the compilers, mpirun and horovodrun need ssh.")
    assert host.exists(name)


def test_horovodrun_only_with_horovod(host: Any, stack: Stack, record_property: Property) -> None:
    record_property("doubles", "declared.horovod")
    record_property("why", "horovodrun starts the ranks of a row that has Horovod; another row has none.")
    assert host.exists("horovodrun") == ("horovod" in dict(stack.communication))


def test_nvcc_only_in_devel(host: Any, stack: Stack, record_property: Property) -> None:
    record_property("doubles", "static.nvcc")
    record_property("why", "A runtime image ships no CUDA compiler (5 GB).")
    assert host.exists("nvcc") == (stack.flavour == "devel")


def test_versions_of_programs(host: Any, stack: Stack, record_property: Property) -> None:
    record_property("doubles", "declared.python, declared.gcc, declared.mpi")
    record_property("why", "Python, gcc and MPI are the row's.")
    assert same_release(stack.python, host.check_output("/opt/stack/bin/python -c %s", PYTHON_VERSION))
    assert same_release(stack.gcc, host.check_output("gcc -dumpfullversion"))
    assert stack.mpi.version in host.check_output("mpirun --version")


PYTHON_VERSION = "import platform; print(platform.python_version())"


def test_packages_fit_together(host: Any, stack: Stack, record_property: Property) -> None:
    """But for the row's own NCCL, which is there instead of the one that a wheel pins."""
    record_property("doubles", "declared.packages, declared.horovod")
    record_property("why", "pip finds no package whose requirement is absent or of another version.")
    done = host.run("/opt/stack/bin/python -m pip check")
    row_nccl = re.compile(rf"but you have nvidia-nccl-cu\d+ {re.escape(stack.nccl)}\.$")
    complaints = [
        line
        for line in done.stdout.splitlines()
        if not row_nccl.search(line) and not _for_arm(line, host, stack)
    ]
    assert done.rc == 0 or (complaints == [] and done.stdout), done.stdout + done.stderr


NOT_HERE = re.compile(r"([\w.-]+) ([\w.+!]+) is not supported on this platform")


def _for_arm(line: str, host: Any, stack: Stack) -> bool:
    """NVIDIA's name of Arm servers, sbsa, is the tag within some of its wheels; pip does not know it."""
    match = NOT_HERE.fullmatch(line)
    if match is None or stack.platform != ARM64:
        return False
    folder = f"/opt/stack/lib/python3*/site-packages/{match[1].replace('-', '_')}-{match[2]}.dist-info"
    tags = host.run(f"grep -h ^Tag: {folder}/WHEEL").stdout.splitlines()
    return bool(tags) and all(tag.endswith("_sbsa") for tag in tags)


def test_library_path_is_not_used(host: Any, record_property: Property) -> None:
    record_property("doubles", "static.library-path")
    record_property("why", "LD_LIBRARY_PATH is overwritten by the modules of an HPC site.")
    assert host.environment().get("LD_LIBRARY_PATH", APPTAINER_LIBRARIES) == APPTAINER_LIBRARIES


def test_loader_has_no_libcuda(host: Any, record_property: Property) -> None:
    record_property("doubles", "static.libcuda-stub")
    record_property("why", "A stub libcuda on the loader's path hides the driver; the driver brings its own.")
    if host.file("/proc/driver/nvidia/version").exists:
        return
    assert "libcuda.so" not in host.check_output("/sbin/ldconfig -p")
