"""A lock says what it is for, is read line by line, and never lets anything else through."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import CELL, LOCK, ROOT, cell

from stackwright.core.errors import LockError
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.requirements import (
    NVCC,
    constraints,
    overrides,
    question,
    request,
    requirements,
)


def test_the_committed_lock_is_read() -> None:
    assert LOCK.row == "cuda12-torch"
    assert LOCK.version("torch") == "2.6.0"
    assert LOCK.base.suite == "trixie"
    assert request(CELL) == LOCK.request


def test_every_package_of_a_lock_has_a_hash() -> None:
    blocks = lockfile.pins(LOCK).split("==")
    assert all("--hash=sha256:" in block for block in blocks[1:])


def test_writing_and_reading_are_inverse(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(lockfile.write(LOCK.row, LOCK.request, LOCK.base, pins=lockfile.pins(LOCK)))
    assert lockfile.read(path) == LOCK


def test_what_compiles_is_a_second_list(tmp_path: Path) -> None:
    path = ROOT / "locks" / "cuda13-torch.txt"
    found = lockfile.read(path)
    assert {package.name for package in found.toolchain} == set(NVCC)
    assert "nvidia-cuda-nvcc" not in {package.name for package in found.packages}
    assert "nvidia-cuda-nvcc" not in lockfile.pins(found)
    assert lockfile.toolchain_pins(found).startswith("nvidia-cuda-cccl==13.2.")
    again = tmp_path / "x.txt"
    again.write_text(lockfile.write(found.row, found.request, found.base, pins=found.text.split("\n", 2)[2]))
    assert lockfile.read(again) == found


def test_mxnet_gets_an_old_numpy_and_the_libraries_that_it_loads_but_does_not_require() -> None:
    asked = requirements(cell(torch=None, mxnet="1.9.1"))
    assert "numpy<1.24" in asked
    assert "nvidia-cudnn-cu11<9" in asked
    assert not [line for line in requirements(CELL) if "cu11" in line or line == "numpy<1.24"]


@pytest.mark.parametrize(
    ("values", "numpy"),
    [
        ({"torch": "2.2.2"}, "numpy<2"),
        ({"torch": "2.3.0"}, "numpy"),
        ({"torch": None, "tensorflow": "2.17.1"}, "numpy<2"),
        ({"torch": None, "tensorflow": "2.18.0"}, "numpy"),
        ({"torch": "2.8.0", "mxnet": "1.9.1"}, "numpy<1.24"),
    ],
)
def test_a_wheel_compiled_against_numpy_1_is_locked_with_it(values: dict[str, str], numpy: str) -> None:
    asked = [line for line in requirements(cell(**values)) if line.startswith("numpy")]
    assert asked in ([numpy], [numpy, "numpy"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ()),
        ({"cudnn": "9.1.0.70"}, ("nvidia-cudnn-cu12==9.1.0.70",)),
        ({"cudnn": "9.1"}, ("nvidia-cudnn-cu12==9.1.*",)),
        ({"cudnn": "9.26", "cuda": "13.2"}, ("nvidia-cudnn-cu13==9.26.*",)),
    ],
)
def test_the_cudnn_of_the_row_binds_the_lock(values: dict[str, str], expected: tuple[str, ...]) -> None:
    row = cell(**values)
    assert constraints(row) == expected
    assert (request(row) == LOCK.request) is not bool(expected)
    assert (question(row, ()) == question(CELL, ())) is not bool(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ()),
        ({"nccl": "2.27.7"}, ("nvidia-nccl-cu12==2.27.7",)),
        ({"nccl": "2.27"}, ("nvidia-nccl-cu12==2.27.*",)),
        ({"nccl": "2.30.7", "cuda": "13.2"}, ("nvidia-nccl-cu13==2.30.7",)),
    ],
)
def test_an_nccl_of_the_row_replaces_the_one_that_wheels_pin(
    values: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert overrides(cell(**values)) == expected


def test_the_locked_nccl_is_the_one_of_the_row_and_not_the_one_that_torch_pins() -> None:
    assert LOCK.version("nvidia-nccl-cu12") == "2.21.5"
    assert lockfile.read(ROOT / "locks" / "nccl-override.txt").version("nvidia-nccl-cu12") == "2.27.7"


def test_a_refusal_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(lockfile.write("r", "q", LOCK.base, refused="Because a needs b"))
    assert lockfile.read(path).refused == "Because a needs b"


@pytest.mark.parametrize(
    "value",
    [{"torch": "2.7.0"}, {"python": "3.12"}, {"os": "debian-12"}, {"gcc": "12"}, {"keras": "3.0"}],
)
def test_a_changed_value_makes_the_lock_out_of_date(value: dict[str, str]) -> None:
    assert request(cell(**value)) != LOCK.request


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index-url http://evil.example/simple",
        "torch @ http://evil.example/torch.whl",
        "-r /etc/passwd",
        "torch==2.6.0; touch /tmp/x",
        "torch==$(id)",
        "torch==2.6.0 --hash=sha256:short",
        "    --hash=md5:0123456789abcdef0123456789abcdef",
    ],
)
def test_a_foreign_line_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(LOCK.text + line + "\n")
    with pytest.raises(LockError, match="neither a pin nor a hash"):
        lockfile.read(path)


@pytest.mark.parametrize("base", ["a b", "x\ny", "`id`", "$(id)", "';'"])
def test_a_foreign_value_of_the_base_is_refused(base: str, tmp_path: Path) -> None:
    from dataclasses import replace

    path = tmp_path / "x.txt"
    path.write_text(lockfile.write("r", "q", replace(LOCK.base, suite=base), pins=lockfile.pins(LOCK)))
    with pytest.raises(LockError, match="not a lock"):
        lockfile.read(path)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_lock_or_a_lock_error(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        path.write_bytes(data)
        with pytest.raises(LockError):
            lockfile.read(path)


def test_a_missing_lock_says_what_to_do() -> None:
    with pytest.raises(LockError, match=r"build\.py lock"):
        lockfile.read(ROOT / "locks" / "no-such-row.txt")


DIGEST = f"sha256:{'0' * 64}"


def test_what_a_tag_led_to_is_part_of_the_lock_and_no_lock_without_it_changes() -> None:
    pinned = replace(LOCK.base, images=(("nvidia/cuda:12.8.1-devel-ubuntu24.04", DIGEST),))
    text = lockfile.write(LOCK.row, LOCK.request, pinned, pins=lockfile.pins(LOCK))
    assert lockfile.parse(text, "x").base == pinned
    assert lockfile.write(LOCK.row, LOCK.request, LOCK.base, pins=lockfile.pins(LOCK)) == LOCK.text


@pytest.mark.parametrize(
    "images",
    [
        [["ubuntu", DIGEST]], [["ubuntu:24.04", "sha256:0"]], [["ubuntu:24.04", f"{DIGEST} x"]],
        [["-x:1", DIGEST]], [["a:$(x)", DIGEST]], [["ubuntu:24.04"]], [["ubuntu:24.04", 5]], 5,
    ],
)  # fmt: skip
def test_an_image_that_is_none_is_refused(images: object) -> None:
    known = json.dumps(images)
    text = LOCK.text.replace('{"base": {', f'{{"base": {{"images": {known}, ', 1)
    assert text != LOCK.text
    with pytest.raises(LockError, match="not a lock"):
        lockfile.parse(text, "x")
