"""A real browser, driven by the W3C WebDriver protocol: each command is one JSON document to chromedriver."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

AXE = Path(__file__).parent / "axe-core" / "axe.min.js"
BROWSERS = ("chromium", "google-chrome", "chromium-browser")
OPTIONS = (
    "--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--force-device-scale-factor=1", "--font-render-hinting=none",
)  # fmt: skip
RULES = (
    "return axe.run(document, {resultTypes: ['violations', 'incomplete'], runOnly: %s}).then(done => done)"
)
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
OUTSIDE = "return performance.getEntriesByType('resource').map(one => one.name)"
WIDER = """return [...document.querySelectorAll('body *')].filter(one =>
    one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.skip, .icons, .scrolls > *')).map(
    one => one.tagName + '.' + one.getAttribute('class') + ': ' + one.textContent.trim().slice(0, 60)
).slice(0, 5)"""
PATIENCE = 60


@dataclass(frozen=True, slots=True)
class Browser:
    """``session`` is the address of the one window that is open."""

    http: requests.Session
    session: str

    def ask(self, command: str, **told: Any) -> Any:
        answer = self.http.post(f"{self.session}/{command}", json=told, timeout=PATIENCE)
        value = answer.json()["value"]
        assert answer.ok, value
        return value

    def show(self, page: Path, *, width: int, height: int, dark: bool = False) -> None:
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setDeviceMetricsOverride", **screen)
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("url", url=page.as_uri())

    def devtools(self, command: str, **told: Any) -> Any:
        return self.ask("goog/cdp/execute", cmd=command, params=told)

    def run(self, script: str) -> Any:
        return self.ask("execute/sync", script=script, args=[])

    def faults(self) -> list[str]:
        """Return what the accessibility checker finds, each with the elements that it is about."""
        self.run(AXE.read_text())
        found = self.run(RULES % list(TAGS))
        assert found["testEngine"]["name"] == "axe-core" and found["inapplicable"] is not None
        return [
            f"{rule['id']}: {rule['help']}: {[node['html'][:160] for node in rule['nodes'][:4]]}"
            for rule in found["violations"]
        ]

    def open_all(self) -> None:
        """Unfold what is folded: what is not shown is not checked."""
        self.run("document.querySelectorAll('details').forEach(one => one.open = true)")

    def too_wide(self) -> list[str]:
        """Return what reaches beyond the right edge of the window."""
        return list(map(str, self.run(WIDER)))

    def from_outside(self) -> list[str]:
        """Return the addresses that the page asked for."""
        return list(map(str, self.run(OUTSIDE)))

    def picture(self) -> bytes:
        """Return a PNG of the window."""
        return base64.b64decode(self.devtools("Page.captureScreenshot", format="png")["data"])


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """Start a browser whose own files are in the folder. A host without one fails here, and skips nothing."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program and shutil.which("chromedriver"), "no Chromium with chromedriver: scripts/browser.sh"
    own = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
    options = [*OPTIONS, f"--user-data-dir={folder}/profile"]
    if os.geteuid() == 0:  # its sandbox needs another user
        options.append("--no-sandbox")
    wanted = {"browserName": "chrome", "goog:chromeOptions": {"binary": program, "args": options}}
    with subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True, env=own) as driver:
        try:
            with requests.Session() as http:
                http.trust_env = False  # it is on loopback: no proxy of this host
                place = f"http://127.0.0.1:{_port(driver)}/session"
                asked = {"capabilities": {"alwaysMatch": wanted}}
                answer = http.post(place, json=asked, timeout=PATIENCE).json()["value"]
                assert "sessionId" in answer, answer
                browser = Browser(http, f"{place}/{answer['sessionId']}")
                try:
                    yield browser
                finally:
                    http.delete(browser.session, timeout=PATIENCE)
        finally:
            driver.terminate()


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout
    for line in driver.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
            return int(found[1])
    raise AssertionError("chromedriver did not start")
