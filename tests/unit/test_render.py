"""What is rendered depends on the row alone, shares what can be shared, and holds nothing of the site."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from rows import ALWAYS, LOCK, ROOT, SERIES, SOURCES, lock_with, stack
from shipped_rows import ROWS

from stackwright.core.components.horovod.build import SCRIPT, wheel_key
from stackwright.core.components.horovod.component import HOROVOD
from stackwright.core.components.table import FIELDS, FILES, TEMPLATES
from stackwright.core.model import labels
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.row import Flavour, Mpi
from stackwright.core.render import configuration, definition, dockerfile, layers
from stackwright.core.render.sources import Sources
from stackwright.host.project import Planned

RECIPE = dockerfile.render(stack(), SOURCES)
DOCKERFILE = RECIPE.text("Dockerfile")


def stage(text: str, name: str) -> str:
    """The lines of one stage."""
    match = re.search(rf"^FROM \S+ AS {name}$.*?(?=^# ---- |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, name
    return match[0]


def test_same_inputs_same_bytes() -> None:
    assert dockerfile.render(stack(), SOURCES) == RECIPE


@pytest.mark.parametrize("shared", ["base", "toolchain", "frameworks", "horovod-wheel"])
def test_stages_do_not_name_the_row(shared: str) -> None:
    other = dockerfile.render(stack(id="another-row"), SOURCES)
    assert stage(other.text("Dockerfile"), shared) == stage(DOCKERFILE, shared)
    assert other.key != RECIPE.key


def test_the_toolchain_is_shipped_in_the_devel_flavour_only() -> None:
    assert "FROM base AS final" in DOCKERFILE
    devel = dockerfile.render(stack(flavour=Flavour.DEVEL), SOURCES).text("Dockerfile")
    assert "FROM toolchain AS final" in devel


@pytest.mark.parametrize("value", [{"gcc": "12.4.0"}, {"mpi": Mpi.of("mpich", "4.2.1")}])
def test_a_value_reaches_the_toolchain(value: dict[str, object]) -> None:
    changed = dockerfile.render(stack(**value), SOURCES).text("Dockerfile")
    assert stage(changed, "toolchain") != stage(DOCKERFILE, "toolchain")
    assert stage(changed, "frameworks") == stage(DOCKERFILE, "frameworks")


WHEEL_VALUES: tuple[dict[str, Any], ...] = (
    {"nccl": "2.27.7"}, {"gcc": "12.4.0"}, {"cuda": "12.2"}, {"python": "3.12.1"}, {"gpu_arch": ("8.0",)},
    {"frameworks": (("torch", "2.5.1"),)}, {"mpi": Mpi.of("openmpi", "4.1.4")},
    {"patches": ("cxx17.patch",)}, {"os": "debian-12"},
)  # fmt: skip


@pytest.mark.parametrize("value", WHEEL_VALUES)
def test_the_wheel_has_another_key_where_it_would_be_another_wheel(value: dict[str, Any]) -> None:
    key = wheel_key(stack(**value), SOURCES)
    assert key != wheel_key(stack(), SOURCES)
    assert f"WHEEL_KEY={key} " in dockerfile.render(stack(**value), SOURCES).text("Dockerfile")


def test_the_wheel_has_another_key_where_its_files_would_have_another_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = wheel_key(stack(), SOURCES)
    monkeypatch.setattr("stackwright.core.components.horovod.build.EPOCH", EPOCH + 1)
    assert wheel_key(stack(), SOURCES) != before


def test_every_row_states_its_licenses_and_its_version() -> None:
    found = dict(dockerfile.labels(stack(frameworks=(("torch", "2.6.0"), ("keras", "3.5.0")))))
    assert found[f"{labels.OCI}licenses"] == "Apache-2.0 AND BSD-3-Clause AND LicenseRef-NVIDIA-Proprietary"
    assert found[f"{labels.OCI}created"] == "2020-01-01T00:00:00Z"
    added = dict(labels.of_recipe(RECIPE))
    assert dockerfile.reference(RECIPE).endswith(f":{added[labels.VERSION]}")
    assert added[labels.KEY].startswith(added[labels.VERSION])
    assert {*labels.SHAPES} <= {*found, *added}
    assert all(shape.fullmatch((found | added)[name]) for name, shape in labels.SHAPES.items())


def test_packages_around_the_frameworks_leave_the_wheel_alone() -> None:
    other = stack(id="other", lock=lock_with(filelock="1.0"), flavour=Flavour.DEVEL)
    assert wheel_key(other, SOURCES) == wheel_key(stack(), SOURCES)


@pytest.mark.parametrize("part", ["files", "patches", "script", "lock"])
def test_the_key_covers_everything_that_goes_in(part: str) -> None:
    changed = {
        "files": lambda: dockerfile.render(stack(gpu_arch=("8.0",)), SOURCES),
        "patches": lambda: dockerfile.render(stack(patches=("cxx17.patch",)), SOURCES),
        "script": lambda: dockerfile.render(stack(), SOURCES.with_file(SCRIPT, b"#!/bin/sh\n")),
        "lock": lambda: dockerfile.render(stack(lock=replace(LOCK, text=LOCK.text + "x==1\n")), SOURCES),
    }[part]()
    assert changed.key != RECIPE.key


def test_patches_keep_the_order_of_the_series() -> None:
    names = [name for name, _ in RECIPE.files if name.startswith("horovod/patches/")]
    files = ("cxx17.patch", "gcc13-includes.patch", *ALWAYS)
    assert names == [f"horovod/patches/{place:02}-{file}" for place, file in enumerate(files)]


def test_the_row_in_the_label_is_the_row_in_the_file() -> None:
    label = re.search(r"org\.stackwright\.stack='(.*)'", DOCKERFILE)
    assert label
    assert json.loads(label[1]) == json.loads(RECIPE.text("row.json")) == dockerfile.declared(stack())


def test_nothing_is_found_by_ld_library_path() -> None:
    assert "LD_LIBRARY_PATH" not in DOCKERFILE
    assert "ld.so.conf.d" in DOCKERFILE


def test_no_syntax_line_because_it_needs_a_registry() -> None:
    assert not re.search(r"^#\s*syntax=", DOCKERFILE, re.MULTILINE)


def test_no_stage_can_see_an_address_of_the_site() -> None:
    assert re.findall(r"\S*https?://\S*", DOCKERFILE) == [f"{labels.OCI}source='{HOROVOD.source}'"]


def test_every_download_runs_with_hashes() -> None:
    installs = re.findall(r"pip (?:install|download)[^;]*", DOCKERFILE)
    assert installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


@pytest.mark.parametrize("value", ["a'b", "a\\b", "a\nb", "a\rb"])
def test_a_label_that_cannot_be_quoted_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        dockerfile.dockerfile_literal(value)


def test_a_template_that_asks_for_an_unknown_value_fails() -> None:
    import jinja2

    broken = tuple((n, t + "{{ no_such_value }}" if n == "final.j2" else t) for n, t in SOURCES.templates)
    with pytest.raises(jinja2.UndefinedError):
        dockerfile.render(stack(), replace(SOURCES, templates=broken))


@pytest.mark.parametrize(
    ("cuda", "required"),
    [
        ("12.4.127", "cuda>=12.0,driver>=525"),
        ("11.8", "cuda>=11.0,driver>=450"),
        ("13.0", "cuda>=13.0,driver>=580"),
    ],
)
def test_the_driver_that_is_required(cuda: str, required: str) -> None:
    assert configuration.require_cuda(cuda) == required


def test_each_patch_of_the_series_names_its_reason_and_a_file() -> None:
    assert SERIES.patches
    for patch in SERIES.patches:
        reason, _, diff = patch.content.partition(b"\n---\n")
        assert len(reason.split()) > 10
        assert diff.startswith(b"--- a/")
        assert patch.source
        assert all(name in FIELDS for name, _ in patch.when)


@pytest.mark.parametrize(
    ("name", "said"),
    [("other.yaml", "from other.yaml; edit that"), ("a\nRUN x", "from its matrix; edit that")],
)
def test_a_rendered_file_names_the_matrix_that_it_is_from(name: str, said: str) -> None:
    sources = Sources.load(ROOT, SERIES, name, files=FILES, templates=TEMPLATES)
    assert said in dockerfile.render(stack(), sources).text("Dockerfile").splitlines()[1]
    assert said in definition.render_definition(stack(), sources).text("cuda12-torch.def").splitlines()[1]


BELOW, ON_TOP = ("runtime packages",), ("rest", "horovod", "row")
PACKAGES = {"nvidia", "nccl", "torch", "tensorflow", "mxnet", "jax"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.stack.id)
def test_each_layer_of_a_row_has_a_purpose(row: Planned) -> None:
    text = row.recipe.text("Dockerfile").encode()
    every = layers.purposes(row.recipe, ("horovod",))
    own = ("compiled", "pip") if row.stack.id == "cuda12-llm" else ()
    assert every[-1 - len(own) : -1] == own
    found = (*every[: -1 - len(own)], every[-1])
    (at,) = (number for number, word in enumerate(found) if word == "runtime packages")
    assert found[:1] + found[-3:] == ("python", *ON_TOP)
    assert set(found[1:at]) <= {"toolchain"}
    assert bool(found[1:at]) == (b"FROM toolchain AS final" in text)
    assert set(found[at + 1 : -3]) <= PACKAGES and len(set(found[at + 1 : -3])) == len(found) - at - 4


def test_a_history_is_read_from_its_end() -> None:
    copied = [f"COPY /layers/{name}" for name in ("nvidia", "nccl", "torch", "rest")]
    lines = ["ADD base.tar", "ENV LANG", "RUN python", "RUN apt", *copied, "RUN pip", "RUN row", "CMD"]
    found = layers.of_history(RECIPE, ("horovod",), tuple(lines))
    packages = ("nvidia", "nccl", "torch", "rest")
    assert found == ("base", "base", "python", "runtime packages", *packages, "horovod", "row", "base")


def test_a_layer_s_digest_goes_with_the_line_that_made_it() -> None:
    history = [("ADD base.tar", 5), ("ENV LANG", 0), ("RUN true", 0), ("WORKDIR /w", 0), ("CMD", 0)]
    assert layers.digests(["a", "b"], history) == ("a", "", "b", "", "")
    assert layers.digests(["a", "b", "c"], history) == ("a", "", "b", "c", "")
    assert layers.digests(["a"], history) == ("",) * 5, "which lines they are is not known"
