"""Readers of facts on recorded outputs; the comparison of tables with what their sources say."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import pytest
from facts_samples import BUILD_INFO_1_14, BUILD_INFO_2_12, HOST_CONFIG_11_7, PTXAS_11_7, PTXAS_13_5
from packaging.tags import parse_tag
from packaging.version import Version

from stackwright.audit.facts import compare, deb, frameworks, index, mirror, nvcc, report
from stackwright.audit.facts.compare import Compared, Outcome
from stackwright.audit.facts.sources import Answer
from stackwright.cli.commands.facts import judge
from stackwright.core.errors import DriftError, SiteError
from stackwright.core.facts import entries
from stackwright.core.facts.entries import Entry
from stackwright.core.facts.provenance import documented, read

KEPLER_TO_AMPERE = "3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7"


def test_what_ptxas_lists_is_read_without_variants() -> None:
    assert " ".join(nvcc.architectures(PTXAS_11_7)) == KEPLER_TO_AMPERE
    newest = "7.5 8.0 8.6 8.7 8.8 8.9 9.0 10.0 10.3 10.7 11.0 12.0 12.1"
    assert " ".join(nvcc.architectures(PTXAS_13_5)) == newest
    assert nvcc.architectures("a ptxas that has no such option") == ()


def test_the_newest_gcc_is_that_of_host_config() -> None:
    assert nvcc.newest_gcc(HOST_CONFIG_11_7) == 11
    assert nvcc.newest_gcc("") is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (BUILD_INFO_2_12, ("11.8", "8", ["sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80"])),
        (BUILD_INFO_1_14, ("10.0", "7", None)),
        ("is_cuda_build = True\n", (None, None, None)),
    ],
)
def test_the_note_on_a_build_is_read_and_not_run(text: str, wanted: tuple[object, ...]) -> None:
    noted = frameworks.build_info(text)
    names = ("cuda_version", "cudnn_version", "cuda_compute_capabilities")
    assert tuple(noted.get(name) for name in names) == wanted


def test_a_note_on_a_build_that_calls_something_is_refused() -> None:
    with pytest.raises(SiteError, match="no plain dictionary"):
        frameworks.build_info("import os, collections\nx = collections.OrderedDict([(os.getcwd(), 1)])\n")
    with pytest.raises(SiteError, match="not Python"):
        frameworks.build_info("def\n")


def wheel(files: dict[str, str]) -> zipfile.ZipFile:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return zipfile.ZipFile(held)


TORCH = {
    "torch-2.5.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\n"
    'Requires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux"\n'
    'Requires-Dist: nvidia-nccl-cu12==2.21.5; platform_machine == "x86_64"\n'
    'Requires-Dist: nvidia-nccl-cu12==9.9.9; platform_system == "Windows"\n',
    "torch/version.py": "__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\nhip = None\n",
    "torch/lib/libtorch_python.so": "\x00sm_50 sm_60 sm_90\x00",
}


def test_a_wheel_of_torch_says_what_it_needs_and_holds() -> None:
    said = {"cuda": "12.4", "cudnn": "9.1.0.70", "nccl": "2.21.5", "own_cuda": False}
    assert frameworks.torch_wheel(wheel(TORCH)) == said | {"code": "sm_50 sm_60 sm_90"}
    own = wheel(TORCH | {"torch/lib/libcudart-e409450e.so.11.0": ""})
    assert frameworks.torch_wheel(own)["own_cuda"]


def test_a_wheel_of_tensorflow_says_what_it_takes() -> None:
    metadata = "".join(
        f"Requires-Dist: {requirement}\n"
        for requirement in (
            "keras<2.15,>=2.14.0",
            'nvidia-cudnn-cu11==8.7.0.84; extra == "and-cuda"',
            'nvidia-nccl-cu11==2.16.5; extra == "and-cuda"',
            'nvidia-cuda-runtime-cu11==11.8.89; extra == "and-cuda"',
        )
    )
    files = {
        "tensorflow-2.14.1.dist-info/METADATA": f"Name: tensorflow\n{metadata}",
        "tensorflow/python/platform/build_info.py": BUILD_INFO_2_12,
    }
    assert frameworks.tensorflow_wheel(wheel(files)) == {
        "cuda": "11.8", "cudnn": "8.7.0.84", "cuda_needs": "==11.8", "nccl_needs": "==2.16.5",
        "code": "sm_35 sm_50 sm_60 sm_70 sm_75 compute_80", "keras": "<2.15,>=2.14.0",
    }  # fmt: skip


def listed(*names: str) -> list[index.Wheel]:
    return [
        index.Wheel(
            name=name, version=Version("1"), url="", sha256="", size=0,
            tags=frozenset(parse_tag(name.removesuffix(".whl").split("-", 2)[2])),
        )
        for name in names
    ]  # fmt: skip


def test_tags_say_which_python_and_which_glibc() -> None:
    files = listed(
        "torch-1-cp39-cp39-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "torch-1-cp313-cp313t-manylinux_2_28_x86_64.whl",
        "torch-1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-1-cp310-cp310-manylinux1_x86_64.whl",
    )
    assert index.pythons(files) == ("3.9", "3.10", "3.12")
    assert index.glibc(files) == "2.28"
    assert index.glibc(files[:1]) == "2.17"
    assert index.glibc(listed("x-1-py3-none-any.whl")) == ""


PACKAGES = {  # of bookworm, cut down
    "python3": "3.11.2-1+b1", "python3.11": "3.11.2-6", "libc6": "2.36-9+deb12u14", "gcc-11": "11.3.0-12",
    "g++-11": "11.3.0-12", "gcc-12": "12.2.0-14", "g++-12": "12.2.0-14", "gcc-9-base": "9.4.0",
    "gcc-10": "10.2",
    "openmpi-bin": "4.1.4-3+b1", "mpich": "4.0.2-3+b1", "cmake": "3.25.1-1", "tini": "0.19.0-1+b3",
    "nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1", "libucx0": "1.13.1-1",
}  # fmt: skip


def test_packages_of_a_release_become_its_values() -> None:
    """A gcc without its g++ compiles no Horovod."""
    assert mirror.offered(PACKAGES) == {
        "glibc": "2.36", "python": ["3.11"], "gcc": ["11", "12"], "cuda": "11.8", "openmpi": "4.1.4",
        "mpich": "4.0.2", "cmake": "3.25.1", "lacks": ["ucx-utils"],
    }  # fmt: skip
    with pytest.raises(SiteError, match="no package mpich"):
        mirror.offered({name: version for name, version in PACKAGES.items() if name != "mpich"})


def package(members: dict[str, bytes]) -> bytes:
    """A .deb, as dpkg-deb would write it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    parts = (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", data.getvalue()))
    text = b"".join(
        f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        + content
        + b"\n" * (len(content) % 2)
        for name, content in parts
    )
    return deb.AR_MAGIC + text


def test_a_file_of_a_package_is_read_without_installing_it() -> None:
    held = package({"./usr/share/doc/x": b"no", "./usr/include/crt/host_config.h": b"header", "./z": b"late"})
    assert deb.member(io.BytesIO(held), nvcc.HOST_CONFIG) == b"header"
    for damaged, why in (
        (held[:200], "cannot be read"),
        (b"no package", "no ar archive"),
        (package({"./usr/bin/other": b""}), "in the package"),
    ):
        with pytest.raises(SiteError, match=why):
            deb.member(io.BytesIO(damaged), nvcc.HOST_CONFIG)


# -- the comparison -----------------------------------------------------------------------------------

READ = read("the source of then", "2026-11-01")
TABLES = {
    "gcc": (
        Entry(key="9.1", value=6, fact=documented("a document", "2026-11-01")),
        Entry(key="11.8", value=11, fact=READ),
        Entry(key="12.4", value=12, fact=READ),
        Entry(key="12.7", value=13, fact=READ),
    ),
    "os": (Entry(key="debian-13", value={"gcc": ["14"], "mpich": "4.2"}, fact=READ),),
}


def answer(key: str, value: object, table: str = "gcc", why: str = "") -> Answer:
    return Answer(table=table, key=key, value=value, source=f"source of {key}", why=why)


ANSWERS = (
    answer("11.8", 11),
    answer("12.4", 13),
    answer("13.0", 15),
    answer("debian-13", None, "os", "no mirror is known here"),
)


def outcomes(compared: tuple[Compared, ...]) -> dict[str, Outcome]:
    return {line.key: line.outcome for line in compared}


def test_each_entry_agrees_differs_or_cannot_be_asked() -> None:
    compared = compare.compare(TABLES, ANSWERS)
    assert outcomes(compared) == {
        "9.1": Outcome.CANNOT, "11.8": Outcome.AGREES, "12.4": Outcome.DIFFERS, "12.7": Outcome.GONE,
        "13.0": Outcome.NEW, "debian-13": Outcome.CANNOT,
    }  # fmt: skip
    assert report.summary(compared) == "6 entries: 1 agree, 3 differ, 2 cannot be asked"
    assert "gcc 12.4: differs: 12 here, 13 there; source of 12.4" in list(report.lines(compared))
    assert "os debian-13: cannot be asked: no mirror is known here" in list(report.lines(compared))


def test_a_difference_is_an_error_and_so_is_a_check_that_asked_nothing() -> None:
    same = (answer("11.8", 11), answer("12.4", 12), answer("12.7", 13))
    judge(compare.compare(TABLES, same))
    with pytest.raises(DriftError, match="3 facts differ") as error:
        judge(compare.compare(TABLES, ANSWERS))
    assert error.value.exit_code == 16
    with pytest.raises(SiteError, match="no source of facts"):
        judge(compare.compare(TABLES, ANSWERS[3:]))


def test_a_table_whose_source_is_away_loses_nothing() -> None:
    away = (answer("nvidia-cuda-nvcc", None, why="the index does not answer"),)
    compared = compare.compare(TABLES, away)
    assert set(outcomes(compared).values()) == {Outcome.CANNOT}
    assert compare.updated(TABLES, away, "2026-11-22")["gcc"] == TABLES["gcc"]


def test_two_sources_that_contradict_each_other_show() -> None:
    twice = (answer("11.8", 11), answer("11.8", 12))
    lines = [line.outcome for line in compare.compare(TABLES, twice) if line.key == "11.8"]
    assert lines == [Outcome.AGREES, Outcome.DIFFERS]


def test_an_update_keeps_the_day_of_what_did_not_change() -> None:
    new = {entry.key: entry for entry in compare.updated(TABLES, ANSWERS, "2026-11-22")["gcc"]}
    assert list(new) == ["9.1", "11.8", "12.4", "13.0"]
    assert new["11.8"].fact == READ
    assert (new["12.4"].value, new["12.4"].fact) == (13, read("source of 12.4", "2026-11-22"))


def test_of_a_value_with_names_the_page_shows_those_that_differ() -> None:
    found = (answer("debian-13", {"gcc": ["14"], "mpich": "4.3"}, "os"),)
    page = report.page(compare.compare(TABLES, found), "2026-11-22")
    assert '{"mpich": "4.2"} here, {"mpich": "4.3"} there' in page
    assert "1 differ" in page


# -- the tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", entries.tables())
def test_a_table_is_written_as_the_command_would(table: str) -> None:
    text = (entries.DATA / f"{table}.json").read_bytes()
    found = entries.parse(text)
    assert entries.written(found) == text
    assert [entry.key for entry in found] == list(dict.fromkeys(entry.key for entry in found))
    assert all(entry.fact.source and entry.fact.when for entry in found)
    assert json.loads(text)[0].keys() == {"key", "value", "how", "when", "source"}
