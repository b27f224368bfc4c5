"""Mistakes that people make, as data: what is written, and the code. docs/mistakes.md has the messages.

    PYTHONPATH=.:tests/support/samples .venv/bin/python -m mistakes > docs/mistakes.md

Each is made for real, through the command line, in a folder with a matrix of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stackwright.cli import main
from stackwright.host.shipped import ROOT

GOOD = """\
defaults:
  provider: debian
  os: debian-13
  horovod: "0.28.1"
  mpi: {flavour: openmpi, version: "5.0"}
  gpu_arch: ["8.0"]
include:
  - id: one
    python: "3.13"
"""
"""What a mistake in the matrix is put into. It ends in the row, so that a line can be added to it."""

MATRIX, PLAN = "matrix.yaml", ("plan",)
SHIPPED = ""
"""The matrix of the checkout, with its locks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """``matrix`` is the text of matrix.yaml, or SHIPPED. ``files`` are more of the folder."""

    what: str
    code: int
    words: tuple[str, ...] = PLAN
    matrix: str | bytes = SHIPPED
    files: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The error, without the line that says what to do next."""
        return self.err.rpartition("error: ")[2].partition("\n  next: ")[0].strip()

    @property
    def next(self) -> str:
        return self.err.rpartition("error: ")[2].partition("\n  next: ")[2].strip()


def line(text: str) -> str:
    return f"{GOOD}    {text}\n"


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def of_matrix(what: str, matrix: str | bytes, code: int = 3) -> Mistake:
    return Mistake(what=what, matrix=matrix, code=code)


def typed(what: str, words: str, code: int = 2) -> Mistake:
    return Mistake(what=what, words=tuple(words.split()), code=code)


NOTATION = (
    of_matrix("a field is misspelt", line('pyhton: "3.12"')),
    of_matrix("a key of the whole file is misspelt", "includes: []\n" + GOOD),
    of_matrix("a key of mpi is misspelt", line('mpi: {flavor: mpich, version: "4.2"}')),
    of_matrix("a field of a row is at the top", 'python: "3.13"\n' + GOOD),
    of_matrix("a version without quotes: 3.10 is the number 3.1", changed('"3.13"', "3.10")),
    of_matrix("a whole number without quotes", line("gcc: 13")),
    of_matrix("a number in a list without quotes", changed('["8.0"]', '["8.0", 9.0]')),
    of_matrix("a date where a version is meant", line("torch: 2024-01-02")),
    of_matrix("a list where one value is meant", line('torch: ["2.6.0"]')),
    of_matrix("one value where a list is meant", changed('["8.0"]', '"8.0"')),
    of_matrix("the MPI as one word", line("mpi: openmpi")),
    of_matrix("yes instead of true", line("test_on_gpu: yes")),
    of_matrix("a value was forgotten", changed('"3.13"', "")),
    of_matrix("a v before a version", line('torch: "v2.6.0"')),
    of_matrix("a range instead of a version", line('torch: ">=2.6"')),
    of_matrix("a leading zero", changed('"3.13"', '"3.013"')),
    of_matrix("a line break in a value", line('torch: "2.6.0\\n"')),
    of_matrix("a command of a shell in a value", line('cuda: "$(id)"')),
    of_matrix("a slash in the name of a row", changed("id: one", "id: ../one")),
    of_matrix("a name of 64 characters", changed("id: one", f"id: {'x' * 64}")),
    of_matrix("a pattern with a blank", GOOD + "select: ['a b']\n"),
    of_matrix("a field twice", line('python: "3.12"')),
    of_matrix("two rows of one name", GOOD + '  - id: one\n    python: "3.12"\n'),
    of_matrix("a row without a name", "include:\n  - python: '3.13'\n"),
    of_matrix("a row without its Python", changed('    python: "3.13"\n', "")),
    of_matrix("an MPI without its version", line("mpi: {flavour: mpich}")),
    of_matrix("no rows at all", "defaults: {}\n"),
    of_matrix("include is empty", "include:\n"),
    of_matrix("include is no list", "include: {id: one}\n"),
    of_matrix("an axis without values", GOOD + "axes:\n  torch: []\n"),
    of_matrix("exclude without axes", GOOD + "exclude:\n  - {python: '3.13'}\n"),
)

VALUES = (
    of_matrix("a release of the distribution that is not there", changed("debian-13", "debian-14")),
    of_matrix("a distribution that no row can have", changed("debian-13", "rocky-9")),
    of_matrix("an MPI that is misspelt", changed("openmpi", "opnmpi")),
    of_matrix("an MPI that no row can have", changed("openmpi", "mvapich2")),
    of_matrix("another architecture", line("arch: arm64")),
    of_matrix("a platform that no row can have", line("platform: linux/ppc64le")),
    of_matrix("a platform without its operating system", line("platform: arm64")),
    of_matrix("a flavour that is not there", line("flavour: openmpi")),
)

YAML = (
    of_matrix("a tab", "include:\n\t- id: one\n"),
    of_matrix("a bracket that is not closed", GOOD + "select: [one\n"),
    of_matrix("an anchor", changed("include:", "include: &rows")),
    of_matrix("an alias", GOOD + "select: *rows\n"),
    of_matrix("a merge key", line('"<<": {}')),
    of_matrix("a tag", changed('"3.13"', "!!str 3.13")),
    of_matrix("two documents in one file", GOOD + "---\n" + GOOD),
    of_matrix("a list at the top", "- id: one\n"),
    of_matrix("an empty file", "\n"),
    of_matrix("not UTF-8", GOOD.encode() + b"    # caf\xe9\n"),
    of_matrix("UTF-16, as some editors of Windows save", GOOD.encode("utf-16")),
    of_matrix("a NUL byte", GOOD + "\0"),
)

EMPTY_ARCHIVE = "PK\x05\x06" + 18 * "\0"
PUBLIC_KEY = (
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    "-----END PUBLIC KEY-----\n"
)
"""The example of RFC 8410."""

FILES = (
    typed("the file of --matrix is misspelt", "plan --matrix matrx.yaml", 3),
    typed("--matrix names a folder", "plan --matrix .", 3),
    typed("--matrix below a file", "plan --matrix matrix.yaml/rows.yaml", 3),
    typed("--matrix twice", "--matrix matrix.yaml plan --matrix other.yaml"),
    Mistake(
        what="STACKWRIGHT_MATRIX names no file", environ={"STACKWRIGHT_MATRIX": "none.yaml"}, code=3,
    ),
    Mistake(
        what="STACKWRIGHT_SOURCES names no folder", environ={"STACKWRIGHT_SOURCES": "none"},
        words=("facts", "fabrics", "--check"),
        code=11,
    ),
    Mistake(what="--site names no file", words=("--site", "none.yaml", "plan"), code=11),
    Mistake(
        what="a key of site.yaml is misspelt", words=("plan", "--site", "site.yaml"),
        files={"site.yaml": "mirorr: http://mirror.example/debian\n"}, code=11,
    ),
    Mistake(what="a row has no lock", matrix=line('torch: "2.6"'), words=("render", "one"), code=4),
    Mistake(
        what="a bundle of a row without a lock", matrix=line('torch: "2.6"'), words=("bundle", "one"), code=4
    ),
    Mistake(
        what="a file that is no bundle", words=("build", "--from-bundle", "rows.bundle"),
        files={"rows.bundle": "no archive"}, code=20,
    ),
    Mistake(
        what="an archive that is no bundle", words=("build", "--from-bundle", "rows.bundle"),
        files={"rows.bundle": EMPTY_ARCHIVE}, code=20,
    ),
    Mistake(
        what="more signers than keys", words=("verify", "FOLDER", "--key", "a.pub", "--threshold", "2"),
        files={"a.pub": PUBLIC_KEY}, code=2,
    ),
    typed("--matrix names a device", "plan --matrix /dev/zero", 3),
    Mistake(
        what="a lock that is no lock", words=("plan", "cuda12-torch"),
        files={"locks/cuda12-torch.txt": "torch==2.6.0\n"}, code=4,
    ),
)  # fmt: skip

WORDS = (
    typed("a command is misspelt", "plann"),
    typed("an option is misspelt", "plan --strikt"),
    typed("an option of another command", "plan --sif"),
    typed("an option without its value", "plan --where"),
    typed("the name of a row is misspelt", "plan cuda12-troch"),
    typed("a pattern that no row matches", "plan cuda9*"),
    typed("--where without a value", "plan --where torch"),
    typed("--where with a field that is misspelt", "plan --where torhc=2.6.0"),
    typed("--where that no row fulfils", "plan --where torch=9.9.9"),
    typed("--allow of a rule that is misspelt", "plan --allow cuda-arc"),
    typed("--all together with a row", "plan --all cuda12-torch"),
    typed("--json together with another format", "plan --json --format text"),
    typed("a format that is not there", "plan --format yaml"),
    typed("a number that is none", "build --jobs many"),
    typed("a number that is too large", "build --jobs 1000"),
    typed("--set with an MPI that no row can have", "explain --set mpi=intel"),
    typed("--set with a field that is not there", "explain --set arch=arm64"),
    typed("--set with a platform that no row can have", "explain --set platform=linux/riscv64"),
    typed("--set without a value", "explain --set gcc"),
    typed("--set of one field twice", "explain --set gcc=12 --set gcc=13"),
    typed("a row that explain does not know", "explain cuda12-troch"),
    typed("a row that lock does not know", "lock no-such-row"),
    typed("a row that history does not know", "history show no-such-row"),
    typed("a compression that is not there", "sif cuda12-torch --sif-compression xz"),
    typed("--from def together with --gpu", "sif cuda12-torch --from def --gpu"),
    typed("--cluster with an address that is none", "build cuda12-torch --cluster node1"),
    typed("launch without a launcher", "launch cuda12-torch"),
    typed("two launchers at once", "launch cuda12-torch --slurm --mpirun"),
    typed("--nodes of a launcher that reads --hosts", "launch cuda12-torch --mpirun --nodes 2"),
    typed("hosts whose ranks are no number", "launch cuda12-torch --mpirun --hosts a:x,b:4"),
    typed("--fabric ofi of a row without libfabric", "launch cuda12-torch --mpirun --hosts a,b --fabric ofi"),
    typed("launch of several rows", "launch cuda12* --docker"),
    typed("verify without a key", "verify FOLDER"),
    typed("verify with a key that is not there", "verify FOLDER --key none.crt", 11),
    typed("a bundle that is not there", "build --from-bundle none.bundle"),
    typed("a bundle together with --cluster", "build --from-bundle none.bundle --cluster slurm"),
    typed("layer without requirements", "layer cuda12-torch"),
    typed("facts of a group that is not there", "facts compilerz --check"),
    typed("facts that are both compared and written", "facts --check --update"),
    typed("ci without a service", "ci"),
    typed("a night that is not there", "history morning 1999", 12),
    typed("a history that is not there", "history merge none.sqlite", 12),
    typed("init where a matrix is", "init"),
    typed("layer with requirements that are not there", "layer cuda12-torch -r none.txt"),
    typed("layer with packages of the distribution", "layer cuda12-torch -r none.txt --apt vim"),
    typed("rows of doctor without --cluster", "doctor cuda12-torch"),
    typed("a shell that is not there", "completion csh"),
)

ROWS = (
    Mistake(
        what="no row of the plan can work", code=5,
        matrix=line('torch: "2.6.0"\n    cuda: "12.4"\n    gcc: "14"'),
    ),
    typed("--set with a gcc that CUDA does not take", "explain cuda12-torch --set gcc=14", 5),
    typed("--set with a release that no table knows", "explain cuda12-torch --set torch=9.9.9", 18),
)  # fmt: skip

DEAD = "http://127.0.0.1:9"
ASKING = (
    typed("--sign without a key of the site", "sif cuda12-torch --sign"),
    typed("--hand-over together with --publish", "nightly --hand-over --publish"),
    typed("publish without a registry", "publish cuda12-torch", 11),
    Mistake(
        what="a proxy that does not answer", words=("lock", "cuda12-torch"), code=11,
        environ={"http_proxy": DEAD, "https_proxy": DEAD, "no_proxy": "", "STACKWRIGHT_APT_MIRROR": "http://mirror.example/debian"},
    ),
    Mistake(
        what="an engine that does not answer", words=("build", "cuda12-torch"), code=6,
        environ={"DOCKER_HOST": "tcp://127.0.0.1:9"},
    ),
)  # fmt: skip

CHAPTERS: Mapping[str, tuple[Mistake, ...]] = {
    "Words of the command line": WORDS,
    "Files": FILES,
    "YAML": YAML,
    "How a row is written": NOTATION,
    "Values that are not there": VALUES,
    "Rows that cannot work": ROWS,
    "The site and the host": ASKING,
}
"""The last one asks the host, and waits for answers that do not come."""

ALL = tuple(mistake for chapter in CHAPTERS.values() for mistake in chapter)


# -- made for real ----------------------------------------------------------------------------------


@contextlib.contextmanager
def folder(mistake: Mistake, place: Path) -> Iterator[None]:
    """Be in a folder with the files of the mistake, and with its variables."""
    if mistake.matrix == SHIPPED:
        shutil.copy(ROOT / MATRIX, place)
        (place / "locks").mkdir()
        for lock in (ROOT / "locks").glob("*.txt"):
            (place / "locks" / lock.name).symlink_to(lock)
    else:
        content = mistake.matrix if isinstance(mistake.matrix, bytes) else mistake.matrix.encode()
        (place / MATRIX).write_bytes(content)
    for name, text in mistake.files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).unlink(missing_ok=True)
        (place / name).write_text(text)
    before, here = dict(os.environ), Path.cwd()
    for name in [name for name in before if name.startswith("STACKWRIGHT_")]:
        del os.environ[name]
    os.environ.update(mistake.environ)
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def make(mistake: Mistake) -> Said:
    """Make the mistake, and return what is said, with the folder's name left out."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with tempfile.TemporaryDirectory() as place, folder(mistake, Path(place)), streams[0], streams[1]:
        try:
            main.main(list(mistake.words))
        except SystemExit as leave:
            code = int(leave.code or 0)
    shown = [re.sub(rf"{re.escape(place)}(/?)", _here, stream.getvalue()) for stream in (out, err)]
    return Said(code=code, out=shown[0], err=shown[1])


def _here(found: re.Match[str]) -> str:
    return "" if found[1] else "FOLDER"


# -- the page ---------------------------------------------------------------------------------------

HEAD = """\
# Mistakes, and their messages

Each line is made for real by a test, which compares the message, the next step and the exit code with this
page (`tests/unit/test_mistakes.py`). What the codes mean is in [cli.md](cli.md#exit-codes).
"""


def cell(text: str) -> str:
    shown = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return shown if len(shown) < 400 else f"{shown[:400]}…"


def page(said: Mapping[str, Said]) -> str:
    """Return the page, up to the first chapter of which nothing was said."""
    lines = [HEAD]
    for title, chapter in CHAPTERS.items():
        if not any(mistake.what in said for mistake in chapter):
            break
        lines += [f"## {title}", "", "| mistake | message | next | code |", "|---|---|---|---|"]
        for mistake in chapter:
            told = said[mistake.what]
            lines.append(f"| {cell(mistake.what)} | {cell(told.message)} | {cell(told.next)} | {told.code} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page({mistake.what: make(mistake) for mistake in ALL}), end="")
