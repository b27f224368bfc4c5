"""The page in a real browser: at two widths, light and dark, by an accessibility checker; and by itself."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import AXE, Browser, opened
from page_sample import whole_page
from PIL import Image

ROOT = Path(__file__).parents[2]
WIDTHS = {400: 860, 1280: 900}
"""Width and height of a phone's window, and of a desk's."""
PICTURES = ROOT / "docs" / "pictures"
ALL_PICTURES = 300_000
COLOURS = 128
CHECKER = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
FOOT = "</main>"
HISTORY = """const charts = document.querySelector('.trends').closest('.part');
charts.nextElementSibling.nextElementSibling.open = true;
charts.scrollIntoView({block: 'start', behavior: 'instant'})"""
"""Shows the charts of a row, with two of its runs compared below them."""

LOOKS = [(width, dark) for width in WIDTHS for dark in (False, True)]
each_look = pytest.mark.parametrize(
    ("width", "dark"), LOOKS, ids=[f"{width}-{'dark' if dark else 'light'}" for width, dark in LOOKS]
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("browser")) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def text() -> str:
    return whole_page()


def shown(browser: Browser, folder: Path, text: str, width: int, dark: bool = False) -> Browser:
    path = folder / "index.html"
    path.write_text(text)
    browser.show(path, width=width, height=WIDTHS[width], dark=dark)
    return browser


def test_the_checker_is_the_published_one() -> None:
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == CHECKER


@each_look
def test_the_page_can_be_used_by_everyone(
    browser: Browser, text: str, tmp_path: Path, width: int, dark: bool
) -> None:
    shown(browser, tmp_path, text, width, dark)
    browser.open_all()
    assert browser.faults() == []
    assert browser.too_wide() == []
    assert browser.from_outside() == []


@pytest.mark.parametrize(("width", "dark"), [(400, False), (1280, True)], ids=["400-light", "1280-dark"])
@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">', "image-alt"),
        ('<p style="color:#8a8a8a;background:#777">Too faint to be read.</p>', "color-contrast"),
        ('<svg role="img" width="9" height="9"><path d="M0 0h9v9z"/></svg>', "svg-img-alt"),
        ("<select><option>nameless</option></select>", "select-name"),
    ],
    ids=["picture", "contrast", "chart", "choice"],
)
def test_a_planted_fault_is_found(
    browser: Browser, text: str, tmp_path: Path, width: int, dark: bool, planted: str, rule: str
) -> None:
    shown(browser, tmp_path, text.replace(FOOT, planted + FOOT), width, dark)
    assert [found.partition(":")[0] for found in browser.faults()] == [rule]


def test_what_is_too_wide_is_found(browser: Browser, text: str, tmp_path: Path) -> None:
    wide = '<div class="wide" style="width:500px">wide</div>'
    assert shown(browser, tmp_path, text.replace(FOOT, wide + FOOT), 400).too_wide() == ["DIV.wide: wide"]


def test_two_rows_are_compared_without_a_script(browser: Browser, text: str, tmp_path: Path) -> None:
    shown(browser, tmp_path, text, 1280).open_all()
    chosen = "document.querySelectorAll('.cmp')[0]"
    lines = (
        f"return [...{chosen}.querySelectorAll('tr.field')].map(one => one.innerText.split(/\\s*[\\t\\n]+/))"
    )
    before = browser.run(lines)
    browser.run(
        f"{chosen}.querySelector('.a').selectedIndex = 0; {chosen}.querySelector('.b').selectedIndex = 0"
    )
    same = browser.run(lines)
    assert any("differs" in line[0] for line in before)
    assert all(len(line) == 3 and line[1] == line[2] for line in same)
    assert not any("differs" in line[0] for line in same)


def test_a_click_marks_a_whole_command(browser: Browser, text: str, tmp_path: Path) -> None:
    shown(browser, tmp_path, text, 1280)
    place = browser.run(
        "const one = document.querySelector('.commands pre');"
        "one.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const box = one.getBoundingClientRect(); return [box.x + 40, box.y + 15, one.textContent]"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.devtools(
            "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
        )
    assert browser.run("return getSelection().toString()").strip() == place[2].strip()


def test_the_page_runs_no_script_and_asks_for_nothing(browser: Browser, text: str, tmp_path: Path) -> None:
    planted = '<script>document.title = "ran"</script><img alt="" src="http://127.0.0.1:9/x.png">'
    shown(browser, tmp_path, text.replace(FOOT, planted + FOOT), 1280)
    assert "ran" not in browser.run("return document.title")
    assert browser.run("return document.querySelector('img').naturalWidth") == 0


def test_pictures_of_the_page_for_the_docs(browser: Browser, text: str, tmp_path: Path) -> None:
    """`STACKWRIGHT_PICTURES=1 make page` writes those of the docs anew."""
    folder = PICTURES if os.environ.get("STACKWRIGHT_PICTURES") else tmp_path / "pictures"
    folder.mkdir(exist_ok=True)
    for width, dark in LOOKS:
        shown(browser, tmp_path, text, width, dark)
        _save(browser.picture(), folder / f"page-{width}-{'dark' if dark else 'light'}.png")
    shown(browser, tmp_path, text, 1280)
    browser.run(HISTORY)
    _save(browser.picture(), folder / "page-history.png")
    assert sum(path.stat().st_size for path in folder.glob("page-*.png")) < ALL_PICTURES
    assert {path.name for path in folder.glob("page-*.png")} == {
        path.name for path in PICTURES.glob("page-*.png")
    }


def _save(picture: bytes, path: Path) -> None:
    """Keep the commonest colours as they are: a mark has one of them. Others become the nearest."""
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    common = sorted(whole.getcolors(whole.width * whole.height) or (), key=lambda pair: -pair[0])[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in common if isinstance(colour, tuple) for part in colour])
    whole.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def test_a_host_without_a_browser_is_told_so_and_nothing_is_skipped(tmp_path: Path) -> None:
    """No package manager is on this PATH either: nothing can be installed."""
    for name in ("bash", "head", "id"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    script = [str(ROOT / "scripts" / "browser.sh")]
    done = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 6 and "the page is not checked" in done.stderr
