"""What is wrong with a page ends `scripts/docs.sh`. `make docs` runs these after the real pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from rows import ROOT

PAGES = {
    "README.md": "# One\n\nSee [the page](docs/page.md#second-part).\n",
    "docs/index.md": (
        "# Contents\n\n## Start\n\n[One](../README.md)\n[Page](page.md)\n[Results](results/README.md)\n"
    ),
    "docs/page.md": "# Page\n\n## Second part\n\nText\n",
    "docs/results/README.md": "# Results\n\n[of a day](day/one.md)\n",
    "docs/results/day/one.md": "# One day\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A few pages, built by the real script, configuration and environment."""
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    for name in ("scripts/docs.sh", "stackwright/__init__.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "out" / "docs").mkdir(parents=True)
    (tmp_path / "out" / "docs" / "venv").symlink_to(ROOT / "out" / "docs" / "venv")
    for name, text in PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def docs(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [project / "scripts" / "docs.sh", *words], capture_output=True, text=True, check=False
    )


def test_the_pages_become_a_site_with_search_version_and_all_parts(project: Path) -> None:
    done = docs(project)
    assert (done.returncode, done.stderr) == (0, "")
    site = project / "out" / "docs" / "html"
    page = (site / "docs" / "page.html").read_text()
    assert "Stackwright 0." in page
    assert 'action="../search.html"' in page
    assert "Start</span>" in page
    assert "docs/index.html" in (site / "index.html").read_text()
    assert "day/one.html" in (site / "docs" / "results" / "README.html").read_text()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("docs/page.md", "# Page\n\n## Second part\n\n[gone](none.md)\n", "none.md"),
        ("docs/page.md", "# Page\n\n## Third part\n", "second-part"),
        ("docs/page.md", "# Page\n\n## Second part\n\n![picture](none.svg)\n", "none.svg"),
        ("docs/page.md", "# Page\n\n## Second part\n\n```nonesuch\nx\n```\n", "nonesuch"),
        ("docs/lost.md", "# A page in no part\n", "isn't included in any toctree"),
        ("docs/results/README.md", "# Results\n\n[of a day](day/two.md)\n", "day/two.md"),
    ],
)
def test_a_wrong_page_is_an_error(project: Path, name: str, text: str, said: str) -> None:
    (project / name).write_text(text)
    done = docs(project)
    assert done.returncode != 0
    assert said in done.stderr


def test_each_tag_is_a_version(project: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    git("init", "--quiet")
    git("add", "README.md")
    git("commit", "--quiet", "-m", "before the site")
    git("tag", "v0.0.1")
    git("add", "docs", "scripts", "stackwright")
    git("commit", "--quiet", "-m", "with the site")
    git("tag", "v0.9.0")
    git("tag", "v0.10.0")
    (project / "docs" / "page.md").write_text("# Page of today\n\n## Second part\n")
    done = docs(project, "versions")
    assert (done.returncode, done.stderr) == (0, "")
    published = project / "out" / "docs" / "published"
    assert sorted(path.name for path in published.iterdir()) == ["index.html", "main", "v0.10.0", "v0.9.0"]
    assert "url=v0.10.0/docs/index.html" in (published / "index.html").read_text()
    old, new = ((published / name / "docs" / "page.html").read_text() for name in ("v0.9.0", "main"))
    assert "Stackwright v0.9.0" in old
    assert "Page of today" not in old
    assert "Page of today" in new
    assert 'href="../../v0.9.0/docs/index.html"' in new


def test_another_word_is_refused(project: Path) -> None:
    done = docs(project, "linkz")
    assert done.returncode == 2
    assert "there is no 'linkz'" in done.stderr
