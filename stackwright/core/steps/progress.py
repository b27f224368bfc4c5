"""The progress of a step, from the lines that pip, apt, make and ninja print, and that of the probes. Pure.

Only counts that these programs give themselves are used, and what cannot be counted says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

UNITS = {"bytes": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}

FETCHED = re.compile(r"\s+(?:Downloading|Using cached) \S+\.whl \((\d+(?:\.\d+)?) (bytes|kB|MB|GB)\)")
"""pip's line when it begins with a wheel. That of a wheel's metadata ends in another name."""

INSTALLING = "Installing collected packages: "
COUNTED = re.compile(r"\d+ upgraded, (\d+) newly installed, ")
NEEDED = re.compile(r"Need to get ([\d,]+(?:\.\d+)?) (B|kB|MB|GB)[ /]")
GET = re.compile(r"Get:\d+ .*\[([\d,]+(?:\.\d+)?) (B|kB|MB|GB)\]")
UNPACKED, SET_UP = "Unpacking ", "Setting up "
SHARE = re.compile(r"\[ *(\d{1,3})%\] ")
"""make's, of files that CMake has to compile and link."""

PARTS = re.compile(r"\[(\d{1,6})/(\d{1,6})\] ")
"""ninja's."""


@dataclass(slots=True)
class Tally:
    """What is counted of one step. ``wheels`` is how many it fetches, 0 where that is not known.

    ``text`` is empty as long as there is nothing to tell. pip and apt name a file when they begin with it:
    its bytes count when they begin with the next.
    """

    wheels: int = 0
    text: str = ""
    _begun: int = 0
    _bytes: float = 0
    _current: float = 0
    _packages: int = 0
    _needed: float = 0
    _unpacked: int = 0
    _set_up: int = 0

    def feed(self, line: str) -> None:
        if match := SHARE.match(line):
            self.text = f"{min(int(match[1]), 100)} %"
        elif match := PARTS.match(line):
            self.text = f"{match[1]} of {match[2]}"
        elif self.wheels:
            self._pip(line)
        else:
            self._apt(line)

    def _pip(self, line: str) -> None:
        if match := FETCHED.match(line):
            self._bytes += self._current
            self._current = float(match[1]) * UNITS[match[2]]
            self._begun += 1
            if self._begun <= self.wheels:
                self.text = f"{self._begun - 1} of {self.wheels} wheels, {_size(self._bytes)}"
        elif line.startswith(INSTALLING):
            self._bytes, self._current = self._bytes + self._current, 0
            self.text = f"{self.wheels} wheels, {_size(self._bytes)}, installing"

    def _apt(self, line: str) -> None:
        """After the lists of packages, apt says what it is going to fetch and install."""
        if match := COUNTED.match(line):
            self._packages = int(match[1])
        elif not self._packages:
            return
        elif match := NEEDED.match(line):
            self._needed = _number(match)
        elif (match := GET.match(line)) and self._needed:
            self._bytes, self._current = min(self._needed, self._bytes + self._current), _number(match)
            self.text = f"{_size(self._bytes)} of {_size(self._needed)}"
        elif line.startswith(UNPACKED):
            self._unpacked = min(self._packages, self._unpacked + 1)
            self.text = f"unpacking {self._unpacked} of {self._packages} packages"
        elif line.startswith(SET_UP):
            self._set_up = min(self._packages, self._set_up + 1)
            self.text = f"setting up {self._set_up} of {self._packages} packages"


LISTS = ("link", "additions", "benchmarks", "compiled", "together")
"""Probes whose files have no more than their name; as in probes/run.py."""


def file_of(word: str) -> str:
    """Return the file that probes/run.py writes when a probe has ended."""
    name = word.partition("=")[0]
    return f"{name if name in LISTS else word.replace('=', '-').replace('/', '-')}.json"


def probing(words: Sequence[str], written: Callable[[str], bool]) -> str:
    """Return which of the probes runs, as in `collective 3 of 6`; they run one after the other."""
    now = next((word for word in words if not written(file_of(word))), "")
    kind = now.partition("=")[0]
    alike = [word for word in words if word.partition("=")[0] == kind]
    return f"{kind} {alike.index(now) + 1} of {len(alike)}" if len(alike) > 1 else kind


def _number(match: re.Match[str]) -> float:
    return float(match[1].replace(",", "")) * UNITS[match[2]]


def _size(count: float) -> str:
    return f"{count / 10**9:.1f} GB" if count >= 10**9 else f"{count / 10**6:.0f} MB"
