"""Read from the package index which releases exist, and print stackwright/rules/releases.py anew.

    .venv/bin/python bench/releases.py INDEX > stackwright/rules/releases.py

INDEX is the address of a package index's simple folder, which answers in JSON (PEP 691).
"""

from __future__ import annotations

import argparse
import json
import textwrap
import urllib.request
from datetime import UTC, datetime

from packaging.version import InvalidVersion, Version

PACKAGES = (
    # field of a row, package, the first release that the tables speak of
    ("torch", "torch", "1.0"),
    ("tensorflow", "tensorflow", "1.12"),
    ("tensorflow", "tensorflow-gpu", "1.12"),
    *(("mxnet", f"mxnet-cu{cuda}", "1.4") for cuda in ("90", "92", "100", "101", "102", "110", "112")),
    ("keras", "keras", "2.0"),
    *(
        (field, f"nvidia-{field}-cu{major}", "0")
        for field in ("nccl", "cudnn")
        for major in ("11", "12", "13")
    ),
)
HEAD = '''"""Releases that exist: those with a wheel for Linux on x86-64 on the package index. Data only.

Written by ``bench/releases.py``.
"""

from __future__ import annotations

from stackwright.rules.provenance import read

RELEASES_READ = read("the package index: releases with a wheel for Linux", "{today}")

RELEASES = (
    # field of a row, package, releases without those for testing
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("index")
    index = parser.parse_args().index
    print(HEAD.format(today=datetime.now(UTC).date()), end="")
    for field, package, first in PACKAGES:
        found = [str(one) for one in releases(index, package) if one >= Version(first)]
        lines = textwrap.wrap(" ".join(found), 95)
        text = "\n".join(f'        "{line} "' for line in lines).removesuffix(' "') + '"'
        print(f'    (\n        "{field}",\n        "{package}",\n{text},\n    ),')
    print(")")


def releases(index: str, package: str) -> list[Version]:
    """All releases of a package that have a wheel for this platform and are not for testing, in order."""
    request = urllib.request.Request(  # noqa: S310 (the index is named by the person who runs this)
        f"{index}/{package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        names = [file["filename"] for file in json.load(answer)["files"]]
    return sorted({version for name in names if (version := _version(name)) and not version.is_prerelease})


def _version(name: str) -> Version | None:
    fits = "none-any" in name or ("linux" in name and "x86_64" in name)
    try:
        return Version(name.split("-")[1]) if name.endswith(".whl") and fits else None
    except InvalidVersion:
        return None


if __name__ == "__main__":
    main()
