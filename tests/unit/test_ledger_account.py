"""Whose each name of an image is, and whether it is as its owner has it: one fault, one problem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from ledger_tree import (
    INFO,
    OF_GCC,
    OF_TORCH,
    PASSWD,
    PYC,
    ROW,
    SITE,
    contents,
    digest,
    file,
    folder,
    judged,
    link,
    names,
    record,
    sums,
    tree,
)

from stackwright.core.credentials import redact, redacted
from stackwright.core.ledger.declared import (
    DANGLING,
    EXPECTED,
    MODES,
    MODES_OF_A_DEFINITION,
    OF_A_DEFINITION,
    OF_A_SIF,
)
from stackwright.core.ledger.entry import ELF, Entry, Kind, Layer, final
from stackwright.core.model.row import World
from stackwright.core.model.target import AMD64, ARM64, Platform

NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
GCC = file("/usr/bin/gcc-13", b"gcc")
AWK = "/etc/alternatives/awk"
TORCH = f"{SITE}/torch-2.6.0.dist-info/RECORD"
CC1PLUS = "/usr/libexec/gcc/13/cc1plus"


def test_an_untouched_image_has_no_problem_and_every_name_has_an_owner() -> None:
    found = judged()
    assert found.problems == ()
    assert "nothing" not in found.owners
    assert found.owners["wheel"] == 8
    assert found.owners["byte-code"] == 1


def at(*entries: Entry) -> dict[str, Entry | None]:
    return {entry.path: entry for entry in entries}


def other(path: str, content: bytes = b"changed") -> dict[str, Entry | None]:
    return at(file(path, content))


FAULTS: tuple[tuple[str, str, str, Mapping[str, Entry | None]], ...] = (
    ("wheels", f"{SITE}/torch/version.py", "is not as torch-2.6.0 has it", other(f"{SITE}/torch/version.py")),
    ("wheels", f"{SITE}/torch/__init__.py", "is missing", {f"{SITE}/torch/__init__.py": None}),
    ("wheels", f"{SITE}/torch/__init__.py", "is a link", at(link(f"{SITE}/torch/__init__.py", "version.py"))),
    ("wheels", NCCL, "is not as nccl", other(NCCL)),
    ("packages", "/usr/bin/gcc-13", "is not as gcc-13 has it", other("/usr/bin/gcc-13")),
    ("packages", CC1PLUS, "of gcc-13 is missing", {CC1PLUS: None}),
    ("packages", "/etc/host.conf", "is not as libc6 has it", other("/etc/host.conf")),
    ("packages", "/usr/lib/libc.so.6", "is not as libc6 has it", other("/usr/lib/libc.so.6")),
    ("packages", "/usr/bin/gcc", "is a file, and gcc-13 has none", other("/usr/bin/gcc")),
    ("packages", CC1PLUS, "is a link", at(link(CC1PLUS, "/usr/bin/gcc-13"))),
    ("links", "/usr/bin/gcc", "of gcc-13 leads to clang", at(link("/usr/bin/gcc", "clang"))),
    ("links", "/usr/local/bin/cc", "leads to clang", at(link("/usr/local/bin/cc", "clang"))),
    ("links", "/usr/local/bin/gcc", "leads to gcc-12", at(link("/usr/local/bin/gcc", "gcc-12"))),
    ("links", AWK, "leads to /usr/bin/g++-13", at(link(AWK, "/usr/bin/g++-13"))),
    ("links", "/usr/bin/awk", "is a file", other("/usr/bin/awk")),
    ("byte-code", PYC, "without a look", other(PYC, b"MAGI\x01\x00\x00\x008 bytes!")),
    ("byte-code", PYC, "not of the source", other(PYC, b"MAGI\x03\x00\x00\x00another!")),
    ("byte-code", PYC, "without a look", other(PYC, b"MAGI\x00\x00\x00\x008 bytes!")),
    ("declared", "/etc/nsswitch.conf", "no copy of", other("/etc/nsswitch.conf", b"hosts: evil\n")),
    ("declared", "/usr/local/bin/sshd-as-user", "not what our step", other("/usr/local/bin/sshd-as-user")),
    ("modes", "/usr/bin/gcc-13", "is setuid", at(file("/usr/bin/gcc-13", b"gcc", mode=0o4755))),
    ("modes", "/usr/bin/own", "is setuid", at(file("/usr/bin/own", b"", mode=0o4755))),
    ("modes", "/opt/stack", "can be written by everyone", at(folder("/opt/stack", mode=0o777))),
    ("modes", "/usr/bin/gcc-13", "by the group root", at(file("/usr/bin/gcc-13", b"gcc", mode=0o775))),
    ("modes", "/usr/bin/gcc-13", "belongs to train:root", at(file("/usr/bin/gcc-13", b"gcc", uid=1000))),
    ("modes", "/usr/bin/gcc-13", "capabilities", at(replace(GCC, capability=True))),
    ("modes", "/usr/lib/libc.so.6", "cannot be read", at(file("/usr/lib/libc.so.6", b"libc", mode=0o600))),
    ("modes", "/tmp", "not 1777", at(folder("/tmp"))),
    ("modes", "/etc/shadow", "not 0640", at(file("/etc/shadow", contents()["/etc/shadow"], gid=42))),
    ("undeclared", "/etc/ld.so.preload", "belongs to nothing", other("/etc/ld.so.preload")),
    ("undeclared", "/etc/nccl.conf", "belongs to nothing", other("/etc/nccl.conf")),
    ("undeclared", f"{SITE}/sitecustomize.py", "belongs to nothing", other(f"{SITE}/sitecustomize.py")),
    ("undeclared", f"{SITE}/x.pth", "belongs to nothing", other(f"{SITE}/x.pth")),
    ("undeclared", f"{SITE}/x.cpython-313.pyc", "nothing", other(f"{SITE}/x.cpython-313.pyc")),
    ("undeclared", f"{INFO}/other.list", "belongs to nothing", other(f"{INFO}/other.list")),
    ("undeclared", "/dev/sda", "nothing", at(replace(folder("/dev/sda"), kind=Kind.DEVICE))),
    ("undeclared", "/.singularity.d/env/91-x.sh", "nothing", other("/.singularity.d/env/91-x.sh")),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "says", "changed"), FAULTS, ids=lambda value: str(value)[:40])
def test_one_fault_is_one_problem(
    kind: str, path: str, says: str, changed: Mapping[str, Entry | None]
) -> None:
    found = [
        problem
        for problem in judged(changed).problems
        if not (problem.kind == "undeclared" and problem.path != path)
    ]
    assert [(problem.kind, problem.path) for problem in found] == [(kind, path)], found
    assert says in found[0].what


def elf(platform: Platform) -> bytes:
    """The head of a program for this platform."""
    return ELF + bytes(14) + platform.elf.to_bytes(2, "little")


@pytest.mark.parametrize("path", [NCCL, CC1PLUS, "/usr/local/bin/sshd-as-user"])
def test_a_program_is_for_the_processor_of_its_row(path: str) -> None:
    arm = at(replace(tree().entries[path], begin=elf(ARM64)))
    (found,) = judged(arm).problems
    assert (found.kind, found.path, found.what) == ("platform", path, "is for 64-bit Arm")
    assert judged(arm, row=replace(ROW, platform=ARM64)).problems == ()


def test_a_package_may_have_a_file_for_each_processor() -> None:
    both = at(replace(GCC, begin=elf(AMD64)), replace(tree().entries[CC1PLUS], begin=elf(ARM64)))
    assert judged(both).problems == ()


def test_state_of_a_package_is_of_no_image_without_the_package() -> None:
    path = "/usr/share/mime/types"
    assert [problem.path for problem in judged(other(path)).problems] == ["/usr/share/mime", path]
    texts = {
        "/var/lib/dpkg/status": contents()["/var/lib/dpkg/status"]
        + b"\nPackage: shared-mime-info\nStatus: install ok installed\nArchitecture: amd64\n",
        f"{INFO}/shared-mime-info.list": b"/.\n/usr/share/mime\n",
    }
    assert judged(other(path), texts).problems == ()


def test_a_licence_that_all_packages_share_is_of_a_package_that_none_has_to_name() -> None:
    licence, copyright = "/usr/share/common-licenses/GPL-3", "/usr/share/doc/gcc-13/copyright"
    before = contents()
    texts = {
        licence: b"GPL",
        "/var/lib/dpkg/status": before["/var/lib/dpkg/status"]
        + b"\nPackage: base-files\nStatus: install ok installed\nArchitecture: amd64\n",
        f"{INFO}/base-files.list": names({licence: b""}),
        f"{INFO}/base-files.md5sums": sums({licence: b"GPL"}),
        f"{INFO}/gcc-13.list": before[f"{INFO}/gcc-13.list"] + f"{copyright}\n".encode(),
    }
    led = at(link(copyright, "../../common-licenses/GPL-3"))
    assert judged(led, texts).problems == ()
    astray = judged({**led, **at(link("/usr/bin/gcc", licence))}, texts)
    assert [(problem.kind, problem.path) for problem in astray.problems] == [("links", "/usr/bin/gcc")]


ACCOUNTS = (
    ("/etc/passwd", PASSWD + "toor:x:0:0::/root:/bin/bash\n", "'toor'"),
    ("/etc/passwd", PASSWD.replace("train:x:1000:1000", "train:x:0:1000"), "'train' with the user id 0"),
    ("/etc/passwd", PASSWD.replace("root:x:", "root::"), "without a password"),
    ("/etc/passwd", PASSWD.replace("/usr/sbin/nologin", "/bin/sh"), "lets 'sshd' log in"),
    ("/etc/passwd", PASSWD + "a:b\n", "line of 2 fields"),
    ("/etc/shadow", "root:$y$abc:20000:0:99999:7:::\n", "a password of 'root'"),
    ("/etc/group", "root:x:0:train\ntrain:x:1000:\nshadow:x:42:\n", "has train in the group 'root'"),
)


@pytest.mark.parametrize(("path", "text", "says"), ACCOUNTS, ids=[says for _, _, says in ACCOUNTS])
def test_who_may_log_in(path: str, text: str, says: str) -> None:
    found = judged(texts={path: text.encode()}).problems
    assert any(says in problem.what for problem in found), found
    assert not any("$y$" in problem.what for problem in found)


LINES = {
    "/etc/fstab": "/dev/sda / ext4\n",
    "/etc/ld.so.conf.d/stackwright.conf": "/opt/other/lib\n",
    "/etc/pam.d/common-auth": "auth optional pam_exec.so /tmp/x\n",
    "/etc/environment": "LD_PRELOAD=/x\n",
    "/etc/hosts.allow": "ALL: ALL\n",
}


@pytest.mark.parametrize("path", LINES)
def test_a_line_that_no_step_writes(path: str) -> None:
    found = judged(texts={path: f"# of the distribution\n\n{LINES[path]}".encode()}).problems
    assert [(problem.kind, problem.path, problem.what) for problem in found] == [
        ("declared", path, "has 1 lines that no step writes")
    ]


def test_a_file_that_was_changed_with_its_list_is_of_another_step_than_the_rest() -> None:
    content = {**OF_TORCH, "torch/version.py": b"cuda = 11\n"}
    lists = record("torch-2.6.0", content)
    path = f"{SITE}/torch/version.py"
    changed = at(file(path, b"cuda = 11\n", layer="two"), file(TORCH, lists, layer="two"))
    found = judged(changed, {TORCH: lists}).problems
    assert {problem.path for problem in found if problem.kind == "wheels"} == {path, TORCH}
    gcc = {**OF_GCC, CC1PLUS: b"other"}
    changed = at(file(CC1PLUS, b"other", layer="two"), file(f"{INFO}/gcc-13.md5sums", sums(gcc), layer="two"))
    found = judged(changed, {f"{INFO}/gcc-13.md5sums": sums(gcc)}).problems
    assert [(problem.kind, problem.path) for problem in found] == [("packages", CC1PLUS)]


def test_byte_code_of_another_step_may_do_something_else() -> None:
    found = judged(at(file(PYC, contents()[PYC] + b"else", layer="two"))).problems
    assert [(problem.kind, problem.path) for problem in found] == [("byte-code", PYC)]


def test_a_record_owns_nothing_outside_the_environment() -> None:
    lists = contents()[TORCH] + b"../../../../../etc/ld.so.preload,sha256=" + digest(b"x").encode() + b",1\n"
    found = judged(at(file("/etc/ld.so.preload", b"x")), {TORCH: lists}).problems
    assert [(problem.kind, problem.path) for problem in found] == [("undeclared", "/etc/ld.so.preload")]


def test_a_package_that_is_not_installed_owns_nothing() -> None:
    found = judged(
        at(file("/usr/bin/left", b"")), {f"{INFO}/gone.list": names({"/usr/bin/left": b""})}
    ).problems
    assert {problem.path for problem in found} == {"/usr/bin/left", f"{INFO}/gone.list"}


def test_a_record_without_a_hash_declares_nothing() -> None:
    lists = contents()[TORCH] + b"torch/extra.py,,\n"
    found = judged(at(file(f"{SITE}/torch/extra.py", b"x")), {TORCH: lists}).problems
    assert [(problem.kind, problem.what) for problem in found] == [
        ("wheels", "is listed by torch-2.6.0 without a hash")
    ]


def test_what_apptainer_adds_is_of_a_sif_and_of_nothing_else() -> None:
    added = other("/.singularity.d/runscript")
    assert [problem.path for problem in judged(added).problems if "." in problem.path[2:]]
    assert judged(added, row=replace(ROW, world=World.SIF)).problems == ()


TRAIN = "/scif/apps/torch/train.py"
OF_A_DEFINITION_FILE: dict[str, Entry | None] = at(
    *(file(f"/dev/{name}", b"", mode=0o666) for name in ("null", "tty", "zero")),
    *(
        folder(path)
        for path in ("/scif", "/scif/apps", "/scif/apps/torch", "/scif/apps/torch/scif", "/scif/data")
    ),
    file("/scif/apps/torch/scif/runscript", b"python train.py"),
    file(TRAIN, b"import torch"),
    replace(file("/etc/shadow", contents()["/etc/shadow"], mode=0o640), gid=0),
)
DEFINITION = replace(
    ROW, world=World.DEFINITION, files={**ROW.files, TRAIN: file(TRAIN, b"import torch").sha256}
)


def test_what_a_definition_file_makes_is_of_its_sif_and_of_nothing_else() -> None:
    texts = {f"/dev/{name}": b"" for name in ("null", "tty", "zero")}
    assert judged(OF_A_DEFINITION_FILE, texts, row=DEFINITION).problems == ()
    wrong = judged(OF_A_DEFINITION_FILE, texts, row=replace(ROW, world=World.SIF)).problems
    assert {("undeclared", TRAIN), ("undeclared", "/dev/null"), ("modes", "/etc/shadow")} <= {
        (problem.kind, problem.path) for problem in wrong
    }


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("declared", file(TRAIN, b"import other")),
        ("undeclared", file("/scif/apps/torch/more.py", b"")),
        ("undeclared", file("/scif/apps/torch/lib/libnccl.so.2", b"")),
        ("undeclared", file("/dev/other", b"", mode=0o666)),
        ("declared", file("/dev/null", b"kept", mode=0o666)),
        ("links", link("/usr/bin/gcc", "/dev/null")),
        ("modes", file("/usr/bin/gcc-13", b"gcc", mode=0o2755)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.path,
)
def test_and_what_it_does_not_make_is_named(kind: str, entry: Entry) -> None:
    texts = {f"/dev/{name}": b"" for name in ("null", "tty", "zero")}
    texts |= {"/dev/null": b"kept"} if entry.size and entry.path == "/dev/null" else {}
    found = judged({**OF_A_DEFINITION_FILE, entry.path: entry}, texts, row=DEFINITION).problems
    assert [(problem.kind, problem.path) for problem in found] == [(kind, entry.path)]


def test_two_images_differ_by_the_package_that_differs() -> None:
    mine, others = judged().parts, judged(other("/usr/bin/gcc-13")).parts
    assert [who for who in mine if mine[who] != others[who]] == ["package gcc-13"]


def test_what_the_images_are_compared_by_is_not_redacted() -> None:
    """A digest after the name of the package passwd has the shape of a password that is set."""
    owners = ("package passwd", "package base-passwd", "wheel passwd-0.1")
    assert redact(json.dumps({owners[0]: "5e" * 32})) != json.dumps({owners[0]: "5e" * 32})
    book = {"parts": [[owner, "5e" * 32] for owner in owners]}
    assert redacted(book) == book
    assert redact(f"not as in the image: {', '.join(owners)}") == f"not as in the image: {', '.join(owners)}"


def test_layers_over_each_other() -> None:
    def layer(*entries: Entry) -> Layer:
        return Layer(name="", entries=entries, texts={"/a/x": "text"} if entries[0].path == "/a" else {})

    gone = Entry(path="/a/x", kind=Kind.WHITEOUT, mode=0, uid=0, gid=0)
    opaque = replace(folder("/a"), kind=Kind.OPAQUE)
    low = layer(
        folder("/a"), file("/a/x", b"low"), file("/a/y", b"low"), folder("/a/b"), file("/a/b/z", b"low")
    )
    assert set(final([low]).entries) == {"/a", "/a/x", "/a/y", "/a/b", "/a/b/z"}
    assert set(final([low, layer(gone)]).entries) == {"/a", "/a/y", "/a/b", "/a/b/z"}
    assert final([low, layer(gone)]).texts == {}
    over = final([low, layer(file("/a/y", b"high"), opaque)]).entries
    assert set(over) == {"/a", "/a/y"}
    assert over["/a/y"].sha256 == file("/a/y", b"high").sha256
    assert set(final([low, layer(link("/a/b", "y"))]).entries) == {"/a", "/a/x", "/a/y", "/a/b"}


def test_every_exception_has_a_reason() -> None:
    assert all(entry.why for entry in (*EXPECTED, *OF_A_SIF, *OF_A_DEFINITION))
    assert all(entry.why for entry in (*MODES, *MODES_OF_A_DEFINITION))
    assert all(why for _, why in DANGLING)


def test_the_tree_is_not_the_same_for_all_tests() -> None:
    assert tree().entries != tree(other("/usr/bin/gcc-13")).entries
