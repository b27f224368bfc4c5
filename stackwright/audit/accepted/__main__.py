"""Try what the rules accept, and what they refuse: every lock, headers, random rows, random refusals.

Each step keeps its answers below --out, by what was asked: a lock for a day, an import and a compile until
the pins change. Exits with 1 if an accepted row fails, or a refusal is contradicted.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from stackwright.audit.accepted import combinations, headers, report
from stackwright.audit.accepted.steps import STEPS, Chosen
from stackwright.audit.accepted.work import Work
from stackwright.host.files import replace_file
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.host.site.settings import index_address


def main() -> int:
    given = _parser().parse_args()
    unknown = [step for step in given.steps if step not in STEPS]
    if unknown:
        raise SystemExit(f"no step {unknown[0]!r}; the steps are {', '.join(STEPS)}")
    runner = Runner(show=False)
    site = settings.site(runner)
    given.out.mkdir(parents=True, exist_ok=True)
    work = Work(
        out=given.out.resolve(), runner=runner, site=site, environment=dict(site.uv),
        compilers=headers.Compilers(roots=dict(given.root)),
        kept=headers.Kept(index=index_address(runner, site), folder=given.headers.resolve()),
    )  # fmt: skip
    cells = combinations.accepted()
    chosen = Chosen(
        seed=given.seed,
        rows=given.rows,
        refusals=given.refusals,
        every=given.every,
        deadline=time.monotonic() + 60 * given.minutes,
    )
    sections = []
    for step in given.steps or STEPS:
        sections.append(STEPS[step](cells, work, chosen))
        print(f"{step}: {sections[-1].said}", file=sys.stderr, flush=True)
    command = shlex.join(
        [
            "python",
            "-m",
            "stackwright.audit.accepted",
            *(given.steps or ()),
            *(["--every"] if given.every else []),
        ]
    )
    page = report.page(f"{datetime.now(UTC):%Y-%m-%d}", command, len(cells), sections)
    if given.report:
        replace_file(given.report, page.encode())
    else:
        print(page)
    return int(any(section.wrong for section in sections))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stackwright.audit.accepted", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("out/accepted"), help="where answers are kept")
    parser.add_argument("--headers", type=Path, default=Path("out/accepted/headers"))
    parser.add_argument(
        "--root", type=_root, action="append", default=[], metavar="GCC=FOLDER",
        help="the root of a system that has this gcc, and sees --headers under the same path",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--rows", type=int, default=40, help="random rows that are installed and imported")
    parser.add_argument("--refusals", type=int, default=50, help="random refusals that are asked about")
    parser.add_argument("--minutes", type=float, default=math.inf, help="install nothing more after so many")
    parser.add_argument("--every", action="store_true", help="import every distinct lock")
    parser.add_argument("--report", type=Path, help="write the page there (Markdown)")
    return parser


def _root(text: str) -> tuple[str, Path]:
    gcc, _, folder = text.partition("=")
    return gcc, Path(folder)


if __name__ == "__main__":
    sys.exit(main())
