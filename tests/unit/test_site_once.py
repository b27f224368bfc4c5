"""The site's settings are read once, by the command line, and handed on as a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
READS_SETTINGS = {"site", "registry", "signing_key", "proxies", "pip_config", "apt_mirror", "ca_bundle"}
MAY_READ = {
    "cli/app.py": "the one place: App.site",
    "build/nodes/worker.py": "a node reads its own: passwords are not sent",
    "build/doctor.py": "examines the settings one by one, of the environment that it is handed",
    "audit/accepted/__main__.py": "a command of its own",
}
MAY_USE_ENVIRON = {
    "cli/main.py": "completes it from site.yaml, for programs that are started as well",
    "cli/app.py": "hands it to settings.site",
    "cli/front.py": "finds the matrix whose rows a shell asks for",
    "build/nodes/worker.py": "a copy, completed from site.yaml",
    "host/site/settings.py": "the default of its functions",
    "host/site/file.py": "STACKWRIGHT_SITE",
    "host/runner.py": "what a program inherits",
    "engines/docker.py": "DOCKER_HOST and PATH, and what a program inherits",
    "engines/apptainer.py": "PATH",
    "publish/moving.py": "what a program inherits",
    "audit/accepted/install.py": "what a program inherits",
    "core/launch/carried/nccl_route.py": "a program of its own, in the job",
    "core/launch/carried/world.py": "a program of its own, in the job",
}


def reads(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = node.func.value
            if (
                isinstance(module, ast.Name)
                and module.id in ("settings", "host")
                and node.func.attr in READS_SETTINGS
            ):
                yield node.func.attr


def found(text: str, path: str) -> list[str]:
    wrong = [f"{path} reads {name}" for name in reads(ast.parse(text)) if path not in MAY_READ]
    if ("os.environ" in text or "getenv" in text) and path not in MAY_USE_ENVIRON:
        wrong.append(f"{path} uses the environment")
    return wrong


def test_settings_are_read_in_one_place() -> None:
    package = ROOT / "stackwright"
    paths = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    assert [wrong for path, text in sorted(paths.items()) for wrong in found(text, path)] == []
    assert {*MAY_READ, *MAY_USE_ENVIRON} <= paths.keys()


def test_a_second_reader_is_seen() -> None:
    planted = "import os\nsite = settings.site(runner)\nname = os.environ['HOME']\n"
    assert found(planted, "publish/rows.py") == [
        "publish/rows.py reads site", "publish/rows.py uses the environment",
    ]  # fmt: skip
