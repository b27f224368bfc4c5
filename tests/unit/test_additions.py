"""What a row adds by pip: its place in the lock and in the files, and the rules on it."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import replace
from itertools import pairwise

import pytest
from rows import CELL, LOCK, SERIES, SOURCES, cell

from stackwright.core.checks.probes import words
from stackwright.core.config import additions
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.added.image import Folder
from stackwright.core.model.row import Cell, Lock, Rejection, Stack
from stackwright.core.render import definition, dockerfile, layers
from stackwright.core.render.instructions import logical_lines
from stackwright.core.resolve import lockfile
from stackwright.core.resolve.additions import Answers, apart, of_folder, refusal
from stackwright.core.resolve.requirements import asked, request, requirements, with_additions
from stackwright.core.resolve.resolve import check, notices, resolve

HASH = "    --hash=sha256:" + "0" * 64


# ----------------------------------------------------------------------------------------- lock


def with_pip(*written: str) -> Cell:
    return cell(pip=additions.together((requirement, ()) for requirement in written))


def pin(name: str, version: str, *via: str) -> str:
    remark = "".join(f"    # via {asker}\n" for asker in via[:1] if len(via) == 1)
    several = "    # via\n" + "".join(f"    #   {asker}\n" for asker in via) if len(via) > 1 else ""
    return f"{name}=={version} \\\n{HASH}\n{remark}{several}"


ALONE = lockfile.pins(LOCK)


def locked(row: Cell, *more: str, both: str = ALONE) -> Lock:
    """The real lock, with what uv would say of the additions."""
    found = apart(Answers(alone=ALONE, both=both + "".join(more)))
    return lockfile.parse(lockfile.write_found(row.id, request(row), LOCK.base, found), "x")


def resolved(row: Cell, lock: Lock) -> Stack:
    found = resolve(row, lock, SERIES)
    assert isinstance(found, Stack), found
    return found


EINOPS = pin("einops", "0.8.2")


def test_a_row_without_additions_asks_and_is_written_as_before() -> None:
    assert (with_additions(CELL), asked(CELL)) == ((), (requirements(CELL),))
    assert request(CELL) == LOCK.request
    found = apart(Answers(alone=ALONE, both=ALONE))
    assert lockfile.write_found(LOCK.row, LOCK.request, LOCK.base, found) == LOCK.text


def test_additions_are_asked_for_together_with_the_frameworks() -> None:
    row = with_pip("einops", "numpy<2.3")
    assert with_additions(row) == (*requirements(CELL), "einops", "numpy<2.3")
    assert request(row) not in (request(CELL), request(with_pip("einops")))


def test_what_is_only_of_the_additions_is_a_list_of_its_own() -> None:
    row = with_pip("einops", "timm")
    more = (EINOPS, pin("timm", "1.0", "a"), pin("safetensors", "0.5", "timm", "other"))
    lock = locked(row, *more)
    assert [package.name for package in lock.added] == ["einops", "timm", "safetensors"]
    assert dict(lock.asked_by)["safetensors"] == ("timm", "other")
    assert lockfile.pins(lock) == ALONE
    assert lockfile.added_pins(lock) == "".join(
        f"{name} \\\n{HASH}\n" for name in ("einops==0.8.2", "timm==1.0", "safetensors==0.5")
    )
    assert lock.version("einops") == "0.8.2" and lock.toolchain == ()
    assert [(package.name, package.version) for package in resolved(row, lock).pip] == [
        ("einops", "0.8.2"),
        ("timm", "1.0"),
    ]


def test_an_addition_that_the_frameworks_have_is_in_no_second_list() -> None:
    row = with_pip("numpy")
    lock = locked(row)
    assert (lock.added, lock.version("numpy") is None) == ((), False)
    stack = resolved(row, lock)
    assert [package.name for package in stack.pip] == ["numpy"]
    assert "additions" not in dockerfile.render(stack, SOURCES).text("Dockerfile")


@pytest.mark.parametrize(
    "change",
    [
        ('"asked_by": {"timm": ["a"]}', '"asked_by": {"timm": ["a; id"]}'),
        ('"asked_by": {"timm": ["a"]}', '"asked_by": {"TIMM;": ["a"]}'),
        ('"asked_by": {"timm": ["a"]}', '"moved": [["timm", "1", "$(id)"]]'),
        ('"asked_by": {"timm": ["a"]}', '"moved": [["timm", "1"]]'),
        ("timm==1.0", "timm @ https://x.example"),
    ],
)
def test_a_lock_with_anything_else_in_it_is_refused(change: tuple[str, str]) -> None:
    row = with_pip("timm")
    text = lockfile.write_found(
        row.id, request(row), LOCK.base, apart(Answers(alone=ALONE, both=ALONE + pin("timm", "1.0", "a")))
    )
    lockfile.parse(text, "x")
    assert change[0] in text
    with pytest.raises(Exception, match="not a lock"):
        lockfile.parse(text.replace(*change), "x")


SAID = """error: No solution found when resolving dependencies
  cause: Because torchvision==0.22.0 depends on torch{sys_platform == 'linux'}==2.7.0
         and you require torch==2.6.0, we can conclude that your requirements and
         torchvision==0.22.0 are incompatible.
         And because you require torchvision==0.22.0, we can conclude that your requirements are
         unsatisfiable.

hint: something else
"""


def test_what_uv_refuses_is_short_and_names_the_addition() -> None:
    text = refusal(SAID, with_pip("einops", "torchvision==0.22.0"))
    assert text == (
        "the row's pip: torchvision==0.22.0 cannot be installed with its other packages, because "
        "torchvision==0.22.0 depends on torch==2.7.0 and you require torch==2.6.0, we can conclude that your "
        "requirements and torchvision==0.22.0 are incompatible"
    )
    none = SAID.replace("depends on torch{sys_platform == 'linux'}==2.7.0", "has no usable wheels")
    assert "only wheels are installed" in refusal(none, with_pip("torchvision"))
    assert len(refusal(SAID.replace("Because", "Because " + "x " * 2000), with_pip("einops"))) < 700


# ---------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("pip", "rule", "clash"),
    [
        ("torch==2.7.0", "pip-fields", ("torch", "2.6.0")),
        ("Torch", "pip-fields", ("torch", "2.6.0")),
        ("horovod", "pip-fields", ("horovod", "0.28.1")),
        ("tensorflow-cpu", "pip-fields", ("tensorflow", "left out")),
        ("nvidia-nccl-cu12==2.27.7", "pip-fields", ("nccl", "left out")),
        ("nvidia-nccl-cu13", "pip-fields", ("nccl", "left out")),
        ("nvidia-cudnn-cu12", "pip-fields", ("cudnn", "left out")),
        ("cupy-cuda13x", "pip-cuda", ("cuda", "12.4")),
        ("nvidia-cublas-cu11", "pip-cuda", ("cuda", "12.4")),
        ("jax-cuda13-plugin", "pip-cuda", ("cuda", "12.4")),
        ("nvidia-dali-cuda110", "pip-cuda", ("cuda", "12.4")),
    ],
)
def test_a_hostile_addition_is_refused_before_a_lock_is_made(
    pip: str, rule: str, clash: tuple[str, str]
) -> None:
    row = with_pip("einops", pip)
    rejection = check(row)
    assert rejection and rejection.rule == rule
    assert rejection.clash == (("pip", additions.normal(pip)), clash)
    assert rejection.settings == ("pip=einops",)
    assert additions.name(row.pip[1]) in rejection.reason


@pytest.mark.parametrize(
    "pip", ["einops", "cupy-cuda12x", "nvidia-ml-py", "nvidia-dali-cuda120", "cudatext", "tensorboard"]
)
def test_others_are_asked_for(pip: str) -> None:
    assert check(with_pip(pip)) is None


def brings(*names: str) -> tuple[str, ...]:
    """A chain of packages, each of which requires the next one."""
    following = (pin(name, "2.29.7", before) for before, name in pairwise(names))
    return (pin(names[0], "1"), *following)


LOCK_CASES = (
    ("pip-second", "thing", brings("thing", "nvidia-nccl-cu13"), "a second nccl: thing → nvidia-nccl-cu13"),
    ("pip-second", "thing", brings("thing", "nvidia-nccl"), "a second nccl"),
    ("pip-second", "thing", brings("thing", "nvidia-cudnn-cu13"), "a second cudnn"),
    ("pip-second", "thing", brings("thing", "nvidia-cuda-runtime"), "a second cuda-runtime"),
    (
        "pip-second",
        "thing",
        brings("thing", "its", "a-cuda13-plugin"),
        "CUDA 13 next to CUDA 12: thing → its",
    ),
    ("pip-named", "einops<0.8", (EINOPS,), "another version"),
    ("pip-named", "nothing", (EINOPS,), "no such package"),
)


@pytest.mark.parametrize(("rule", "pip", "more", "says"), LOCK_CASES)
def test_a_lock_that_brings_what_an_image_has_once_is_refused(
    rule: str, pip: str, more: tuple[str, ...], says: str
) -> None:
    row = with_pip(pip)
    rejection = resolve(row, locked(row, *more), SERIES)
    assert isinstance(rejection, Rejection)
    assert rejection.rule == rule and says in rejection.reason
    assert rejection.clash[0][1].startswith(pip)


OF_EXTRA = "    # from https://ci@wheels.example/simple/\n"


@pytest.mark.parametrize(
    ("extra", "answered", "says"),
    [
        (("ours",), True, ""),
        (("ours",), False, "no extra index of the site has ours"),
        ((), True, "write {name: ours, index: extra}"),
        ((), False, ""),
    ],
)
def test_a_name_is_answered_by_the_index_that_the_row_says(
    extra: tuple[str, ...], answered: bool, says: str
) -> None:
    row = cell(pip=additions.together([("ours", ())], extra))
    both = (
        ALONE + pin("ours", "99.0") + (OF_EXTRA if answered else "    # from https://index.example/simple\n")
    )
    extras = ("https://other.example", "https://ci:x@wheels.example/simple")
    found = apart(Answers(alone=ALONE, both=both, extra=extras))
    text = lockfile.write_found(row.id, request(row), LOCK.base, found)
    assert "example" not in text and lockfile.parse(text, "x").extra == (("ours",) if answered else ())
    answer = resolve(row, lockfile.parse(text, "x"), SERIES)
    assert isinstance(answer, Stack) == (not says)
    assert not says or (
        isinstance(answer, Rejection) and answer.rule == "pip-index" and says in answer.reason
    )


def test_a_package_that_an_addition_brings_from_an_extra_index_is_named_with_it() -> None:
    row = with_pip("thing")
    both = ALONE + pin("thing", "1.0") + pin("numpy-like", "2.0", "thing") + OF_EXTRA
    found = apart(Answers(alone=ALONE, both=both, extra=("https://wheels.example/simple",)))
    lock = lockfile.parse(lockfile.write_found(row.id, request(row), LOCK.base, found), "x")
    answer = resolve(row, lock, SERIES)
    assert isinstance(answer, Rejection) and answer.rule == "pip-index"
    assert answer.clash == (("pip", "thing"), ("numpy-like", "2.0"))


def test_the_wheels_of_a_folder_are_in_the_context_and_in_both_worlds() -> None:
    content = b"a wheel"
    own = Folder(
        source="dist", place="", files=(("ours-1.0-py3-none-any.whl", content), ("x-1-py3-none-any.whl", b""))
    )
    row = cell(pip=additions.together([("ours", ())]), wheels=own)
    digest = hashlib.sha256(content).hexdigest()
    lines = f"ours==1.0 \\\n    --hash=sha256:{digest} \\\n{HASH}\n"
    kept = of_folder(ALONE + lines, own)
    assert digest in kept and f"ours==1.0 \\\n    --hash=sha256:{digest} \\\n" in kept
    found = apart(Answers(alone=ALONE, both=kept))
    lock = lockfile.parse(lockfile.write_found(row.id, request(row), LOCK.base, found), "x")
    assert lockfile.added_pins(lock) == f"ours==1.0 \\\n    --hash=sha256:{digest}\n"
    stack = resolved(row, lock)
    recipe = dockerfile.render(stack, SOURCES)
    assert dict(recipe.files)["wheels/ours-1.0-py3-none-any.whl"] == content
    assert "wheels/x-1-py3-none-any.whl" not in dict(recipe.files), "the lock does not name it"
    (step,) = [
        logical_line
        for logical_line in logical_lines(recipe.text("Dockerfile"))
        if "--dest /additions" in logical_line
    ]
    assert "--find-links /tmp/wheels" in step and "source=wheels,target=/tmp/wheels" in step
    text = definition.render_definition(stack, SOURCES).text("cuda12-torch.def")
    assert "    wheels /root/build/wheels\n" in text and "--find-links /root/build/wheels" in text
    assert dockerfile.declared(stack)["wheels"] == {"ours-1.0-py3-none-any.whl": digest}
    assert request(row) != request(replace(row, wheels=None))


def test_a_lock_with_another_file_than_that_of_the_folder_is_refused() -> None:
    own = Folder(source="dist", place="", files=(("ours-1.0-py3-none-any.whl", b"a wheel"),))
    row = cell(pip=additions.together([("ours", ())]), wheels=own)
    answer = resolve(row, locked(row, pin("ours", "1.0")), SERIES)
    assert isinstance(answer, Rejection) and answer.rule == "pip-wheels"


def test_what_moves_a_shared_package_is_a_notice() -> None:
    row = with_pip("einops")
    before = LOCK.version("numpy")
    lock = locked(row, EINOPS, both=ALONE.replace(f"numpy=={before}", "numpy==1.26.4"))
    (notice,) = notices(row, lock)
    assert (notice.rule, notice.said, notice.clash) == ("pip-shared", "warns", (("numpy", "1.26.4"),))
    assert notice.reason.endswith(f"numpy is 1.26.4 instead of {before}")
    assert not notices(row, locked(row, EINOPS))


def test_a_requirement_with_a_marker_may_be_left_out() -> None:
    row = with_pip('nothing; python_version < "3.5"')
    assert resolved(row, locked(row)).pip == ()


def test_an_addition_that_moves_a_library_of_the_frameworks_is_refused() -> None:
    row = with_pip("einops")
    moved = ALONE.replace("nvidia-cublas-cu12==", "nvidia-cublas-cu12==99.")
    rejection = resolve(row, locked(row, EINOPS, both=moved), SERIES)
    assert isinstance(rejection, Rejection) and rejection.rule == "pip-moves"
    assert "without the row's pip, nvidia-cublas-cu12 would be 12." in rejection.reason
    other = ALONE.replace("numpy==", "numpy==1!")
    lock = locked(row, EINOPS, both=other)
    assert [name for name, _, _ in lock.moved] == ["numpy"]
    resolved(row, lock)


def test_two_lists_with_a_compiler() -> None:
    found = apart(Answers(alone="a==1\n", both="a==1\nb==2\n", toolchain="c==3\n"))
    lock = lockfile.parse(lockfile.write_found("r", "q", LOCK.base, found), "x")
    assert [[package.name for package in part] for part in (lock.packages, lock.added, lock.toolchain)] == [
        ["a", "b"], ["b"], ["c"],
    ]  # fmt: skip
    assert (lockfile.pins(lock), lockfile.added_pins(lock), lockfile.toolchain_pins(lock)) == (
        "a==1\n", "b==2\n", "c==3\n",
    )  # fmt: skip


# --------------------------------------------------------------------------------------- render


def test_additions_are_the_last_layer_but_the_row_and_nothing_before_changes() -> None:
    row = with_pip("einops")
    stack, plain = resolved(row, locked(row, EINOPS)), resolved(CELL, LOCK)
    recipe, before = dockerfile.render(stack, SOURCES), dockerfile.render(plain, SOURCES)
    assert dict(recipe.files)["requirements.txt"] == dict(before.files)["requirements.txt"]
    assert recipe.text("additions.txt") == f"einops==0.8.2 \\\n{HASH}\n"
    steps = logical_lines(recipe.text("Dockerfile"))
    added = [line for line in steps if "additions" in line]
    assert [line for line in steps if line not in added][:-8] == logical_lines(before.text("Dockerfile"))[:-8]
    assert [line.split()[0] for line in added] == ["FROM", "RUN", "RUN"]
    assert layers.purposes(recipe, ("horovod",)) == (
        "python", "runtime packages", "nvidia", "nccl", "torch", "rest", "horovod", "pip", "row",
    )  # fmt: skip
    assert layers.purposes(before, ("horovod",))[-2:] == ("horovod", "row")


def test_the_row_in_the_image_names_them() -> None:
    row = with_pip("einops")
    stack = resolved(row, locked(row, EINOPS))
    assert dockerfile.declared(stack)["pip"] == {"einops": "0.8.2"}
    assert "pip" not in dockerfile.declared(resolved(CELL, LOCK))


def test_the_definition_file_installs_the_same_list() -> None:
    row = with_pip("einops")
    recipe = definition.render_definition(resolved(row, locked(row, EINOPS)), SOURCES)
    text = recipe.text("cuda12-torch.def")
    final = text.partition("# ---- final")[2]
    assert final.index("additions.txt /root/build/additions.txt") < final.index("/wheels/horovod-")
    assert final.index("/wheels/horovod-") < final.index("pip download") < final.index("--find-links")
    assert "additions=einops" in final and "additions" not in text.partition("# ---- final")[0]
    post = final.partition("%post -c /bin/bash -euo pipefail\n")[2].partition("\n%environment")[0]
    done = subprocess.run(["bash", "-n"], input=post, capture_output=True, text=True, check=False)
    assert ("compileall" in post, done.returncode, done.stderr) == (True, 0, "")


def test_the_probe_is_asked_about_names_modules_and_what_came_along() -> None:
    row = replace(with_pip("timm"), pip=(Addition(requirement="timm", modules=("timm", "timm.models")),))
    lock = locked(row, pin("timm", "1.0"), pin("safetensors", "0.5", "timm"))
    assert "additions=timm:timm+timm.models,+safetensors" in words(resolved(row, lock), 0, {})
    assert not [word for word in words(resolved(CELL, LOCK), 0, {}) if word.startswith("additions")]
