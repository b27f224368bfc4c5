"""The page: nothing is green that did not run, and nothing from outside steers it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from page_elements import Elements
from report_samples import NO_GPU, NOON, all_passed, broken, built, image_of, rejected

from stackwright.core.errors import RecordError
from stackwright.core.launch.examples import WAYS, recipes
from stackwright.core.model.record import Component, Image, Layer, Status, Step
from stackwright.core.model.row import Check, Outcome, Rejection, Tier, Verdict, World
from stackwright.records.report.page import TIERS, page
from stackwright.records.report.table import write_page
from stackwright.records.report.wording import size, tier_cells

SHOWN = [name for name, launcher, _ in WAYS if launcher != "torchrun"]
"""The ways to start a row with Horovod alone."""


def test_the_page_shows_every_part_of_a_row() -> None:
    text = page((built(), broken()), [rejected()], NOON)
    for part in (
        "1 of 2 images needs attention", "2026-03-02 06:00 UTC", NO_GPU, "differs", "2.26.2", "nvidia/cudnn",
        "everything else", "Slowest build steps", "cached", "docker run --rm --gpus all",
        "apptainer exec --nv", "one-cuda", "Nearest that works", "28.5.2", "25.2 GB memory", *TIERS.values(),
    ):  # fmt: skip
        assert part in text, part


def test_nothing_is_green_that_did_not_run() -> None:
    """Each of the cells at a glance carries the class, the word and the shape of its own outcome."""
    text = page((built(), broken()), [], NOON)  # the failed row comes first
    glance = text[text.index('class="glance"') : text.index("</table>")]
    cells = re.findall(
        r'<span class="cell ([\w-]+)"><svg[^>]*><use href="#i-([\w-]+)"/></svg><span>([^<]+)', glance
    )
    expected = [cell for record in (broken(), built()) for world in ("docker", "sif")
                for cell in tier_cells(record, world)]  # fmt: skip
    words = [cell.outcome.value for cell in expected]
    assert cells == [(word.replace(" ", "-"), word.replace(" ", "-"), word) for word in words]
    assert words.count("not run") == 8


def test_the_page_needs_nothing_from_outside() -> None:
    text = page((built(), broken(), all_passed()), [rejected()], NOON)
    for tag, attributes in Elements(text).seen:
        assert tag not in ("script", "img", "iframe", "object", "embed", "base", "form")
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("src", "srcset", "action", "ping")
            if name == "href":
                outside = tag == "a" and attributes.get("rel") == "noreferrer"
                near = value is not None and value.startswith(("#", "../"))
                assert outside or near or value == "data:,"
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style


def test_hostile_text_stays_text() -> None:
    evil = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}"
    check = Check(id=evil, tier=Tier.LINK, why=evil, outcome=Outcome.FAILED, detail=evil)
    image = Image(reference=evil, id=evil, bytes=1, base=evil, digest=evil)
    record = built(
        row=evil, reason=evil, declared=((evil, evil),), found=((evil, evil),), image=image,
        layers=(Layer(created_by=evil, what=evil, bytes=1),), components=(Component(name=evil, bytes=1),),
        steps=(Step(name=evil, seconds=1),), verdicts=(Verdict(world=World.DOCKER, checks=(check,)),),
        tools=((evil, evil),), status=Status.FAILED,
    )  # fmt: skip
    bad = Rejection(
        id=evil, rule=evil, clash=((evil, evil),), reason=evil, source=f"javascript:{evil}", nearest=evil
    )
    text = page((record, replace(record, started="2026-01-01T00:00:00Z", found=())), [bad], NOON)
    assert "<script" not in text and "<img" not in text and "49" not in re.findall(r"\}\}|49", text)
    for tag, attributes in Elements(text).seen:
        assert tag != "script" and not any(name.startswith("on") for name in attributes)
        assert not str(attributes.get("href", "")).startswith("javascript")


def test_commands_quote_what_they_name() -> None:
    image = replace(all_passed().image or image_of(built()), reference="a b;reboot", digest="")
    text = page((replace(built(), image=image),), [], NOON)
    assert "&#39;a b;reboot&#39;" in text and "docker pull" not in text


def test_a_published_image_is_pulled_by_digest() -> None:
    text = page((all_passed(),), [], NOON)
    digest = "sha256:" + "9f" * 32
    assert f"docker pull registry.example:5000/gpu/torch@{digest}" in text
    assert f"docker://registry.example:5000/gpu/torch@{digest}" in text


def test_the_page_says_what_changed_since_the_run_before() -> None:
    older = tuple((name, "2.2.2" if name == "numpy" else value) for name, value in built().found)
    before = built(started="2026-03-01T02:00:00Z", found=older, lock="0f" * 32)
    text = page((before, built()), [], NOON)
    assert "numpy: 2.2.2 → 2.2.3" in text and "The lock was renewed" in text and "Runs so far" in text
    assert "Changed since" not in page((built(),), [], NOON)


def test_components_add_up_to_the_image() -> None:
    text = page((built(),), [], NOON)
    rest = image_of(built()).bytes - sum(part.bytes for part in built().components)
    line = text[text.index('title="everything else"') :][:200]
    assert size(rest) in line


def test_a_page_of_nothing_is_a_page(tmp_path: Path) -> None:
    path = write_page([], [], tmp_path / "deep" / "index.html", at=NOON)
    assert "No image has been built yet" in path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["index.html"]


def test_the_same_records_give_the_same_page(tmp_path: Path) -> None:
    first = write_page([built(), broken()], [rejected()], tmp_path / "a.html", at=NOON).read_bytes()
    assert write_page([broken(), built()], [rejected()], tmp_path / "b.html", at=NOON).read_bytes() == first


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        write_page([], [], tmp_path / "file" / "index.html")


def test_a_row_shows_how_it_is_started_and_each_recipe_is_folded() -> None:
    text = page((all_passed(),), [], NOON)
    recipes = [element for element in Elements(text).seen if element == ("details", {"class": "fold"})]
    assert len(recipes) == len(SHOWN)
    assert "srun --mpi=pmix" in text and "kind: MPIJob" in text and "prove_world.py" in text


def test_two_ranks_are_not_held_to_a_core_each() -> None:
    """Open MPI binds up to two ranks to one core each, with all their threads."""
    text = page((all_passed(),), [], NOON)
    assert text.count("mpirun -np 2 --bind-to none python train.py") == text.count("mpirun -np 2 ") == 2


def test_an_image_that_failed_is_not_offered_to_a_cluster() -> None:
    assert "kind: MPIJob" not in page((broken(),), [], NOON)


@pytest.mark.parametrize(
    "name, value", [("mpi.flavour", "intel"), ("mpi.version", "5;id"), ("nccl", "$(id)")]
)
def test_a_record_with_an_mpi_or_nccl_of_another_notation_has_no_recipes(name: str, value: str) -> None:
    record = all_passed()
    declared = tuple((key, value if key == name else old) for key, old in record.declared)
    assert recipes(replace(record, declared=declared), "i") == ()
    assert [recipe.name for recipe in recipes(record, "i")] == SHOWN


@pytest.mark.parametrize(("user", "asked"), [("20001:100", "20001"), ("root", "1000"), ("1\nx:1", "1000")])
def test_kubernetes_is_asked_for_the_recorded_rows_user(user: str, asked: str) -> None:
    record = all_passed()
    made = recipes(replace(record, declared=(*record.declared, ("user", user))), "i")
    (text,) = (recipe.text for recipe in made if recipe.name == "Kubernetes")
    assert f"runAsUser: {asked}\n" in text


def test_no_line_of_a_recipe_leaves_its_comment() -> None:
    for recipe in recipes(all_passed(), "i\ntouch x"):
        assert "touch x" not in [line.strip() for line in recipe.text.splitlines()]


def test_the_page_shows_the_last_lines_of_the_log_that_failed() -> None:
    """They come from a build: nothing in them is markup."""
    record = replace(broken(), tail=("cc1plus: <b>all</b> warnings", "make: *** [all] Error 1"))
    text = page((record,), [], NOON)
    assert "cc1plus: &lt;b&gt;all&lt;/b&gt; warnings\nmake: *** [all] Error 1</pre>" in text
