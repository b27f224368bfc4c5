"""Files as they are seen from outside, and by the probe inside: both say the same of the same names."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ledger_tree import file, link, tree

from stackwright.core.ledger import files
from stackwright.core.ledger.entry import Entry

PROBES = Path(__file__).parents[2] / "probes"
SITE = "/opt/stack/lib/python3.13/site-packages"
NAMES = (
    "/root/.cache/pip/http/a", "/home/train/.cache/uv/x", "/home/train/.cache/other", "/etc/pip.conf",
    "/root/.config/pip/pip.conf", "/home/train/.netrc", "/var/cache/apt/archives/x.deb",
    "/var/cache/apt/pkgcache.bin", "/var/lib/apt/lists/lock", "/var/lib/apt/lists/mirror_dists",
    "/etc/apt/sources.list", "/etc/apt/sources.list.d/x.sources", "/etc/apt/auth.conf.d/x", "/tmp/x",
    "/var/tmp/x", "/run/secrets/ca", "/etc/apt/apt.conf.d/90proxy", f"{SITE}/torch/lib/x.so",
    "/opt/stack/bin/x", f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/bin/env", "/etc/x",
    "/usr/local/cuda/bin/nvcc", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_rsa_key.pub", "/x",
)  # fmt: skip


@pytest.fixture(scope="module")
def probe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("probe_of_files", PROBES / "files.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def entries() -> dict[str, Entry | None]:
    return {path: file(path, b"x", mode=0o755) for path in NAMES}


def test_leftovers_and_components_are_the_probes_own(probe: ModuleType) -> None:
    found = files.document(tree(entries()), keys=())
    inside = probe.leftovers([(path, 1) for path in NAMES])
    assert {name: {entry["path"] for entry in every} for name, every in found["leftovers"].items()} == {
        name: {entry["path"] for entry in every} for name, every in inside.items()
    }
    assert [files.component(path) for path in NAMES] == [probe.component(path) for path in NAMES]


def test_keys_and_libraries_by_their_names(probe: ModuleType) -> None:
    found = files.document(tree(entries()), keys={"/root/k"})
    assert found["host_keys"] == ["/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_rsa_key.pub"]
    assert found["driver_libraries"] == ["/usr/lib/x86_64-linux-gnu/libcuda.so.1"]
    assert found["nvcc"] == ["/usr/local/cuda/bin/nvcc"]
    assert found["private_keys"] == [{"path": "/root/k", "readable": True}]
    for name in (
        "libnccl.so",
        "libcudart-0f3a.so.11",
        "libcudnn.so.8.1",
        "libnccl.so.2x",
        "libcudnn_ops.so.9",
    ):
        assert bool(files.CUDA_LIBRARY.fullmatch(name)) == bool(probe.CUDA_LIBRARY.match(name))


def test_a_library_by_several_names_is_one() -> None:
    nccl = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
    changed = {**entries(), "/usr/lib/libnccl.so": link("/usr/lib/libnccl.so", nccl)}
    changed["/usr/lib/libnccl.so.9"] = link("/usr/lib/libnccl.so.9", "nowhere")
    changed["/usr/lib/libnccl.so.8"] = link("/usr/lib/libnccl.so.8", "libnccl.so.8")
    assert files.document(tree(changed), keys=())["cuda_libraries"] == [nccl]
