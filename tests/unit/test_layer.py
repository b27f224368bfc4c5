"""What a layer asks of the index, what is refused, and what may be in one."""

from __future__ import annotations

from dataclasses import replace

import ledger_tree as sample
import pytest
import rows
from command import call

from stackwright.core.errors import RejectedError, UsageError
from stackwright.core.layer import asked, document, hidden
from stackwright.core.layer.document import Added, Below
from stackwright.core.ledger.entry import Entry, Kind, Layer, final
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Check, Outcome, Package, Tier, Verdict, World

STACK = rows.stack()
HASH = "    --hash=sha256:" + "0" * 64


def wanted(*lines: str) -> tuple[Addition, ...]:
    return asked.read("\n".join(lines), "requirements.txt")


def answer(*pins: str) -> str:
    """As uv prints it, with who requires what."""
    return "".join(f"{pin} \\\n{HASH}\n    # via transformers\n" for pin in pins)


def test_a_file_of_requirements_is_read_and_its_line_named() -> None:
    assert [addition.requirement for addition in wanted("transformers>=4.45  # models", "", "einops")] == [
        "transformers>=4.45", "einops",
    ]  # fmt: skip
    for line in ("-e .", "https://example.org/x.whl", "a; rm -rf /", "--index-url x"):
        with pytest.raises(UsageError, match=r"^requirements\.txt:2: .* is not a requirement"):
            wanted("einops", line)
    with pytest.raises(UsageError, match="names no requirement"):
        wanted("# nothing")


def test_what_the_parent_has_is_not_asked_for() -> None:
    inside = asked.inside(STACK)
    assert inside["horovod"] == "0.28.1"
    open_, there = asked.split(wanted("torch>=2.0", "horovod", "einops", "torch[opt-einsum]"), inside)
    assert [addition.requirement for addition in open_] == ["einops", "torch[opt-einsum]"]
    assert there == (Package(name="torch", version="2.6.0"), Package(name="horovod", version="0.28.1"))


def test_the_parents_versions_are_kept_and_its_nccl_is_an_override() -> None:
    lines = asked.constraints(STACK).splitlines()
    assert "torch==2.6.0" in lines
    assert not any(line.startswith("nvidia-nccl") for line in lines)
    assert asked.cell(STACK, wanted("einops")).nccl == STACK.nccl


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("torch==2.7.0", "pip-fields"),
        ("nvidia-nccl-cu12==2.27.7", "pip-fields"),
        ("nvidia-nccl-cu13", "pip-fields"),
        ("horovod==0.27.0", "pip-fields"),
        ("cupy-cuda13x", "pip-cuda"),
    ],
)
def test_what_would_change_a_proven_file_is_refused_in_the_rules_words(line: str, rule: str) -> None:
    with pytest.raises(RejectedError, match=rf"\(rule {rule}\)") as refused:
        asked.refuse_fields(asked.cell(STACK, wanted(line)))
    assert "another row of the matrix" in refused.value.hint


def resolved(*pins: str, lines: tuple[str, ...] = ("transformers",)) -> asked.Resolved:
    return asked.answered(STACK, asked.cell(STACK, wanted(*lines)), answer(*pins), ())


def test_only_what_is_new_is_installed() -> None:
    found = resolved(
        "transformers==4.45.0", "torch==2.6.0", "filelock==" + (STACK.lock.version("filelock") or "")
    )
    assert found.new == (Package(name="transformers", version="4.45.0"),)
    assert found.pins == f"transformers==4.45.0 \\\n{HASH}\n"
    whole = asked.with_layer(STACK, found)
    assert [package.name for package in whole.pip] == ["transformers"]
    assert whole.lock.version("transformers") == "4.45.0"
    assert whole.lock.added == found.new
    assert replace(whole, lock=STACK.lock, pip=()) == STACK


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("nvidia-nccl-cu13==2.28.3", r"a second nccl: transformers → nvidia-nccl-cu13 \(rule pip-second\)"),
        ("nvidia-cuda-runtime-cu11==11.8.89", r"a second cuda-runtime: .* \(rule pip-second\)"),
        ("torch==2.7.0", r"without the row's pip, torch would be 2\.6\.0 \(rule pip-moves\)"),
        ("filelock==99.0", "the parent has filelock .*, and 99.0 is asked for"),
    ],
)
def test_an_answer_that_would_change_the_parent_is_refused(pin: str, said: str) -> None:
    with pytest.raises(RejectedError, match=said):
        resolved("transformers==4.45.0", pin)


def test_a_label_names_what_a_layer_added_and_nothing_of_the_parent() -> None:
    label = '{"added": ["einops==0.8.2", "torch==9.9", "horovod==9", "$(x)==1"], "parent": "x"}'
    found = asked.of_label(STACK, label)
    assert [(package.name, package.version) for package in found.pip] == [("einops", "0.8.2")]
    assert found.lock.version("torch") == "2.6.0"
    for text in ("", "{", "[]", '{"added": 1}', '{"added": [1]}', '{"added": []}'):
        assert asked.of_label(STACK, text) is STACK
    unknown = replace(STACK, lock=replace(STACK.lock, packages=()))
    assert asked.of_label(unknown, label) is unknown


# -- what may be in one -----------------------------------------------------------------------------

NCCL = f"{sample.SITE}/nvidia/nccl/lib/libnccl.so.2"
NEW = f"{sample.SITE}/einops/__init__.py"


def problems(*entries: Entry) -> list[str]:
    return list(hidden.problems(entries, sample.tree()))


def test_new_files_hide_nothing() -> None:
    folders = [sample.folder(path) for path in ("/opt", "/opt/stack", sample.SITE, f"{sample.SITE}/einops")]
    assert problems(*folders, sample.file(NEW, b"")) == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (sample.file(NCCL, b"another"), f"{NCCL} of the parent would be hidden"),
        (sample.link(NCCL, "/tmp/x"), f"{NCCL} of the parent would be hidden"),
        (replace(sample.file(NCCL, b""), kind=Kind.WHITEOUT), f"{NCCL} of the parent would be taken away"),
        (replace(sample.folder(sample.SITE), kind=Kind.OPAQUE), "of the parent would be taken away"),
        (sample.folder(sample.SITE, mode=0o777), "of the parent would get the mode 0777"),
        (sample.file(f"{NCCL}/x", b""), "which is no folder in the parent"),
        (sample.file("/lib/x.so", b""), "/lib, which is no folder in the parent"),
        (sample.file("/etc/profile.d/x.sh", b""), "is outside /opt/stack"),
        (sample.file(NEW, b"", mode=0o4755), "is a file with the mode 4755"),
        (replace(sample.file(NEW, b""), kind=Kind.DEVICE), "is a device"),
    ],
)
def test_what_a_layer_may_not_have_is_named(entry: Entry, said: str) -> None:
    (found,) = problems(entry)
    assert said in found


def test_a_whiteout_is_seen_before_it_is_applied() -> None:
    gone = Layer(name="two", entries=(replace(sample.file(NCCL, b""), kind=Kind.WHITEOUT),), texts={})
    assert problems(*gone.entries)
    below = Layer(name="one", entries=tuple(sample.tree().entries.values()), texts={})
    assert NCCL not in final((below, gone)).entries


# -- what is attested -------------------------------------------------------------------------------


def test_the_document_names_the_parent_and_what_was_added() -> None:
    checks = (Check(id="a", tier=Tier.LINK, why="", outcome=Outcome.FAILED, detail=""),)
    made = document.document(
        Below(row="r", key="k", world="docker", id="sha256:1", digest="sha256:" + "a" * 64, layers=("x",)),
        Added(
            digest="d", files=2, bytes=3, wanted=("einops",), there=(), pins="",
            new=(Package(name="einops", version="1"),),
        ),
        Verdict(world=World.DOCKER, checks=checks), image="sha256:2", started="2026-11-22T00:00:00Z",
    )  # fmt: skip
    assert (made["added"], made["failed"], made["tiers"]["link"]) == ({"einops": "1"}, ["a"], "failed")
    assert document.parent_of(made) == "sha256:" + "a" * 64
    for below in ({}, {"digest": ""}, {"digest": "sha256:x\n"}, None):
        with pytest.raises(ValueError, match="no published parent"):
            document.parent_of({"parent": below})


def test_packages_of_the_distribution_are_told_where_they_go(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = call(capsys, "layer", "image:1", "-r", "requirements.txt", "--apt", "libsndfile1")
    assert code == 2 and "dpkg's database is one" in said and "name libsndfile1 in the apt of a row" in said
