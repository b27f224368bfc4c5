"""Which layer of an image each Python package is in, and how its files get there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from image_facts import stack

from stackwright.core.model.row import Package
from stackwright.core.render import package_layers

SCRIPT = Path(__file__).parents[2] / "image" / "layers.py"


def packages(*names: str) -> tuple[Package, ...]:
    return tuple(Package(name=name, version="1") for name in names)


def test_what_changes_by_itself_is_in_a_layer_by_itself() -> None:
    named = packages("numpy", "nvidia-cublas-cu12", "nvidia-nccl-cu12", "torch", "triton", "einops")
    lock = replace(stack().lock, packages=named, added=named[-1:])
    found = dict(package_layers.groups(replace(stack(), lock=lock)))
    assert found == {
        "nvidia": ("nvidia-cublas-cu12",), "nccl": ("nvidia-nccl-cu12",), "torch": ("torch", "triton"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["nvidia-nccl-cu13", "nvidia-nccl"])
def test_nccl_is_known_by_any_of_its_names(name: str) -> None:
    lock = replace(stack().lock, packages=packages(name), added=())
    assert dict(package_layers.groups(replace(stack(), lock=lock))) == {"nccl": (name,)}


def distribution(site: Path, name: str, *files: str) -> None:
    """Write an installed distribution with a RECORD, and the byte code of its sources."""
    info = f"{name}-1.dist-info"
    listed = (f"{info}/METADATA", f"{info}/RECORD")
    for file in (*files, *listed):
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Name: {name}\nVersion: 1\n")
        if path.suffix == ".py":
            compiled = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
            compiled.parent.mkdir(exist_ok=True)
            compiled.write_text("")
    (site / info / "RECORD").write_text("".join(f"{file},,\n" for file in (*files, *listed)))


def test_each_file_is_in_one_layer_and_where_it_was(tmp_path: Path) -> None:
    environment, layers = tmp_path / "stack", tmp_path / "layers"
    site = environment / "lib"
    distribution(site, "nccl", "nvidia/__init__.py", "nvidia/nccl/lib.so")
    distribution(site, "cublas", "nvidia/__init__.py", "nvidia/cublas/lib.so", "../../outside")
    distribution(site, "torch", "torch/a.py", "../bin/torchrun")
    (environment / "empty").mkdir()
    (environment / "lib64").symlink_to("lib")
    before = {path for path in environment.rglob("*") if path.is_symlink() or not path.is_dir()}
    listed = tmp_path / "layers.json"
    listed.write_text(json.dumps({"nvidia": ["cublas"], "nccl": ["nccl"], "torch": ["torch"]}))
    argv = [sys.executable, "-B", str(SCRIPT), str(environment), str(layers), str(listed)]
    subprocess.run(argv, check=True, env={**os.environ, "PYTHONPATH": str(site)})

    tag = sys.implementation.cache_tag
    of = {
        layer: {
            str(path.relative_to(f"{layers}/{layer}{environment}"))
            for path in Path(f"{layers}/{layer}{environment}").rglob("*")
            if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
        }
        for layer in ("nvidia", "nccl", "torch", "rest")
    }  # fmt: skip
    shared = {"lib/nvidia/__init__.py", f"lib/nvidia/__pycache__/__init__.{tag}.pyc"}
    info = {
        name: {f"lib/{name}-1.dist-info/METADATA", f"lib/{name}-1.dist-info/RECORD"}
        for name in ("cublas", "nccl", "torch")
    }  # fmt: skip
    assert of["nvidia"] == {"lib/nvidia/cublas/lib.so", *shared, *info["cublas"]}
    assert of["nccl"] == {"lib/nvidia/nccl/lib.so", *info["nccl"]}
    assert of["torch"] == {
        "lib/torch/a.py",
        f"lib/torch/__pycache__/a.{tag}.pyc",
        "bin/torchrun",
        *info["torch"],
    }
    assert of["rest"] == {"empty", "lib64"}
    assert before == {path for path in environment.rglob("*") if path.is_symlink() or not path.is_dir()}
