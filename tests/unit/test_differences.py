"""What an image has otherwise than its parent, by two trees of files; and a row as its label has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ledger_tree as sample
import pytest
import rows

from stackwright.build.derived import report
from stackwright.build.derived.examine import Labelled
from stackwright.build.derived.prove import Proof
from stackwright.core.checks import origin
from stackwright.core.checks.differences import (
    Differences,
    Moved,
    between,
    distributions,
    layers_below,
    packages,
)
from stackwright.core.errors import VerdictError
from stackwright.core.ledger.entry import Entry
from stackwright.core.model.labels import ROW, STACK
from stackwright.core.model.row import Check, Outcome, Tier, Verdict, World
from stackwright.core.render import labelled
from stackwright.core.render.dockerfile import declared

INFO = f"{sample.SITE}/torch-2.6.0.dist-info/RECORD"
NEWER = {"torch/__init__.py": b"import torch.version\n", "torch/version.py": b"cuda = 13.0\n"}


def newer() -> Mapping[str, Entry | None]:
    """Torch as ``pip install -U`` leaves it: the old list is gone, and so is a module."""
    fresh = f"{sample.SITE}/torch-2.12.0.dist-info/RECORD"
    return {
        INFO: None,
        f"{sample.SITE}/torch/nn.py": None,
        f"{sample.SITE}/torch/version.py": sample.file(
            f"{sample.SITE}/torch/version.py", NEWER["torch/version.py"]
        ),
        fresh: sample.file(fresh, sample.record("torch-2.12.0", NEWER)),
    }


def test_a_newer_torch_is_named_with_the_files_that_were_proven() -> None:
    before = sample.tree()
    found = between(before, sample.tree(newer()), sample.ROW)
    assert found.python == (Moved(name="torch", before="2.6.0", now="2.12.0"),)
    assert str(found.python[0]) == "torch 2.6.0 → 2.12.0"
    assert found.packages == ()
    assert found.files is not None
    (torch,) = found.files
    assert (torch.owner, torch.count) == ("torch-2.6.0", 3)
    assert torch.changed == (f"{sample.SITE}/torch/version.py",)
    assert torch.gone == (INFO, f"{sample.SITE}/torch/nn.py")


def test_the_parent_itself_differs_in_nothing() -> None:
    found = between(sample.tree(), sample.tree(), sample.ROW)
    assert (found.python, found.packages, found.files) == ((), (), ())


def test_what_is_new_hides_nothing_and_what_no_list_has_is_of_the_steps() -> None:
    added = f"{sample.SITE}/einops-0.8.dist-info/METADATA"
    home = "/home/train/.local/lib/python3.13/site-packages/more-1.0.dist-info/METADATA"
    changed: dict[str, Entry | None] = {path: sample.file(path, b"x") for path in (added, home)}
    changed["/usr/local/bin/cc"] = sample.link("/usr/local/bin/cc", "clang")
    found = between(sample.tree(), sample.tree(changed), sample.ROW)
    assert list(map(str, found.python)) == [
        "einops 0.8 added",
        "more 1.0 in /home/train/.local/lib/python3.13/site-packages added",
    ]
    assert found.files is not None
    assert [(file.owner, file.changed) for file in found.files] == [
        ("the row's own steps", ("/usr/local/bin/cc",))
    ]


def test_modes_and_owners_count_and_times_do_not() -> None:
    path = f"{sample.SITE}/torch/nn.py"
    whole = sample.tree().entries[path]
    later = sample.tree({path: replace(whole, mtime=5)})
    assert between(sample.tree(), later, sample.ROW).files == ()
    (found,) = between(sample.tree(), sample.tree({path: replace(whole, mode=0o666)}), sample.ROW).files or ()
    assert found.changed == (path,)


def test_distributions_of_the_systems_own_python_are_dpkgs_to_tell() -> None:
    path = "/usr/lib/python3/dist-packages/yaml-6.0.dist-info/METADATA"
    assert "yaml" not in distributions(sample.tree({path: sample.file(path, b"")}))
    status = (
        "Package: a\nStatus: install ok installed\nVersion: 1\n\nPackage: b\nStatus: deinstall\nVersion: 2\n"
    )
    assert packages(sample.tree(texts={"/var/lib/dpkg/status": status.encode()})) == {"a": "1"}


def layer(*paths: str) -> tuple[Entry, ...]:
    return tuple(sample.file(path, b"") for path in paths)


@pytest.mark.parametrize(
    ("added", "below"),
    [
        ((), 3),
        (("USER root", "RUN pip install x"), 3),
        (("RUN true", "RUN pip install x", "RUN true"), 2),  # two of them wrote nothing
        (("/bin/bash",), 3),  # docker commit
    ],
)
def test_the_parents_layers_end_where_instructions_were_added(added: tuple[str, ...], below: int) -> None:
    layers = (layer("/bin/sh"), layer("/etc/stackwright/row.json"), layer("/workspace"))
    more = (layer("/opt/x"),) if added else ()
    assert layers_below((*layers, *more), origin.most_layers(added)) == below


def test_without_the_rows_file_no_layer_is_the_parents() -> None:
    assert layers_below((layer("/bin/sh"), layer("/opt/x")), 1) == 0


def test_what_changes_settings_is_told_from_what_makes_a_layer() -> None:
    lines = ("USER root", "RUN pip install x", "ENV A=1", "COPY a /", 'CMD ["x"]')
    assert origin.settings(lines) == ("USER root", "ENV A=1", 'CMD ["x"]')
    assert origin.settings((*lines, "USER train")) == ("ENV A=1", 'CMD ["x"]')
    numbered = (*lines, "USER 20001:100")
    assert origin.settings(numbered, "20001:100") == ("ENV A=1", 'CMD ["x"]')
    assert "USER 20001:100" in origin.settings(numbered)
    assert origin.most_layers(lines) == 2


# -- a row as its label has it ----------------------------------------------------------------------


def labels(**changed: Any) -> dict[str, str]:
    stack = rows.stack()
    return {ROW: stack.id, STACK: json.dumps({**declared(stack), **changed})}


def test_a_row_is_read_back_from_its_label() -> None:
    stack = rows.stack()
    read = labelled.stack_of(labels(), stack.lock)
    assert read == replace(stack, test_on_gpu=read.test_on_gpu, pip=read.pip)
    assert labelled.lock_of(labels()) == stack.lock.sha256


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"id": "other"}, "not of one row"),
        ({"os": "debian-13; rm -rf /"}, "os is 'debian-13; rm"),
        ({"python": 3}, "python is '3'"),
        ({"frameworks": {"caffe": "1"}}, "does not know 'caffe'"),
        ({"mpi": None}, "mpi is no object"),
        ({"gpu_arch": "8.0"}, "gpu_arch is no list"),
        ({"ports": [80]}, "ports is '80'"),
        ({"volumes": ["/data"]}, "cannot read 'volumes'"),
        ({"flavour": "huge"}, "huge"),
    ],
)
def test_a_label_that_is_not_as_one_is_written_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        labelled.stack_of(labels(**changed), rows.LOCK)


def test_a_label_without_a_lock_is_refused() -> None:
    with pytest.raises(ValueError, match="names no lock"):
        labelled.lock_of(labels(lock="../../etc/passwd"))
    with pytest.raises(ValueError, match="no JSON"):
        labelled.lock_of({ROW: "x", STACK: "{"})


# -- what a person reads ----------------------------------------------------------------------------


def proof(**changed: Any) -> Proof:
    labelled_image = Labelled(
        image="mine:1", id="sha256:" + "ab" * 32, world=World.DOCKER, row="cuda12-torch", key="5e" * 32,
        labels={}, added=("USER root", "RUN pip install -U torch", "ENV A=1"),
    )  # fmt: skip
    checks = (
        Check(
            id="link.import", tier=Tier.LINK, why="It imports.", outcome=Outcome.FAILED, detail="exit code 1"
        ),
        Check(
            id="built.nccl", tier=Tier.BUILT, why="x", outcome=Outcome.NOT_RUN,
            detail="not asked, because link.import failed",
        ),
    )  # fmt: skip
    values: dict[str, Any] = {
        "image": labelled_image, "known": "the matrix, which makes this key",
        "differences": between(sample.tree(), sample.tree(newer()), sample.ROW),
        "verdict": Verdict(world=World.DOCKER, checks=checks),
    }  # fmt: skip
    return Proof(**{**values, **changed})


def test_a_person_reads_what_it_is_what_differs_and_what_is_untrue() -> None:
    text = "\n".join(report.lines(proof()))
    assert text.splitlines()[0] == "mine:1: derived from cuda12-torch 5e5e5e5e5e5e, and not that image"
    assert "  added: RUN pip install -U torch" in text
    assert "  distribution torch 2.6.0 → 2.12.0" in text
    assert "  proven files: 3 are other ones or gone" in text
    assert "    torch-2.6.0: 1 changed and 2 gone: " in text
    assert "  settings: ENV A=1" in text
    assert "  of the claims of cuda12-torch, 1 are not true of it:\n  link.import: It imports.\n" in text
    assert "  1 more claims are not shown to be true" in text
    with pytest.raises(VerdictError, match=r"1 checks failed: link\.import"):
        report.refuse(proof())


def test_a_sif_never_gets_the_rows_name_by_its_labels() -> None:
    sif = replace(proof().image, world=World.SIF, added=(), whole=False)
    assert sif.title == "a SIF with the labels of cuda12-torch 5e5e5e5e5e5e"
    assert replace(sif, added=("a definition file with Bootstrap: localimage",)).title.startswith("derived")
    assert replace(sif, world=World.DOCKER).title.endswith("and with another history")
    found = report.document(proof(image=sif, differences=Differences()))
    assert (found["files"], found["untrue"]) == (None, ["link.import"])
