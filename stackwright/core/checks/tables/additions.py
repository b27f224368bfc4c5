"""Checks of what a row adds: it is there, it imports, it goes together, and it finds its libraries."""

from __future__ import annotations

import re

from stackwright.core.checks.check import Facts, Finding, Rule, finding, listed, take
from stackwright.core.checks.tables.link import DRIVER, VENV
from stackwright.core.model.row import Stack, Tier

OF_DRIVER = frozenset({DRIVER, "libnvidia-ml.so.1"})
CLEAN = "No broken requirements found."
"""What pip says where it finds nothing; anything else is a complaint, or no answer."""


def imports(stack: Stack, facts: Facts) -> Finding:
    problems, seen = [], []
    for package in stack.added:
        error = take(facts, "additions", "distributions", package.name, "error")
        if error:
            problems.append(f"{package.name}: {error}")
            continue
        modules = take(facts, "additions", "distributions", package.name, "modules")
        wanted = [module for module in package.modules if module not in modules]
        problems += [f"{package.name}: {module} was not imported" for module in wanted]
        problems += [
            f"{package.name}: {module}: {found['error']}"
            for module, found in modules.items()
            if found["error"]
        ]
        seen.append(f"{package.name} ({listed(modules) or 'it has no module'})")
    return finding(problems, listed(seen))


def origin(stack: Stack, facts: Facts) -> Finding:
    """A second copy that is found first: on PYTHONPATH, by a .pth file, in the user's own folder."""
    minor = ".".join(stack.python.split(".")[:2])
    folder = f"{VENV}/lib/python{minor}/site-packages/"
    problems = [
        f"{module} of {package.name} is imported from {found['file']}"
        for package in stack.added
        for module, found in dict(take(facts, "additions", "distributions", package.name, "modules")).items()
        if not str(found["file"]).startswith(folder)
    ]
    return finding(problems, folder)


def together(stack: Stack, facts: Facts) -> Finding:
    """The row's own NCCL replaces the one that wheels pin: pip complains about it, and is right."""
    found = take(facts, "additions", "check")
    code, lines = found["code"], list(found["lines"])
    if code not in (0, 1) or not lines or (code == 0) != (CLEAN in lines):
        said = found["said"] or listed(lines, 3)
        return finding([f"pip check gave no answer (exit code {code}): {said}"])
    own = re.compile(rf".*but you have nvidia-nccl-cu\d+ {re.escape(stack.nccl)}\.?")
    return finding((line for line in lines if line != CLEAN and not own.fullmatch(line)), CLEAN)


def resolved(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "additions", "libraries")
    missing = {path: [name for name in names if name not in OF_DRIVER] for path, names in found.items()}
    said = take(facts, "additions", "distributions")
    along = (*stack.lock.added, *stack.lock.compiled)
    lost = {package.name: error for package in along if (error := said.get(package.name, {}).get("error"))}
    problems = [f"{name}: {error}" for name, error in lost.items()]
    problems += [f"{path} needs {listed(names)}" for path, names in sorted(missing.items()) if names]
    return finding(problems, f"{len(found)} shared objects and programs")


def replaced(stack: Stack, facts: Facts) -> Finding:
    """Both wheels list such a file, so that the ledger accounts for it whichever of the two it is."""
    found = dict(take(facts, "additions", "replaced"))
    return finding(
        f"{path} is in {' and in '.join(names)} with other content" for path, names in found.items()
    )


def hides(stack: Stack, facts: Facts) -> Finding:
    """Nothing has another content then, so that neither the ledger nor a hash says anything."""
    found = dict(take(facts, "additions", "hidden"))
    problems = [
        f"{path} of {hidden['of']} is found before {hidden['hides']}"
        for path, hidden in sorted(found.items())
    ]
    problems += [
        f"importing {module} of {package.name} replaces {listed(imported['replaces'])}"
        for package in stack.added
        for module, imported in dict(
            take(facts, "additions", "distributions").get(package.name, {}).get("modules", {})
        ).items()
        if imported.get("replaces")
    ]
    return finding(problems, "no module and no program")


def startup(stack: Stack, facts: Facts) -> Finding:
    found = dict(take(facts, "additions", "startup"))
    return finding(f"{path} of {name} is run by every Python of the image" for path, name in found.items())


def installed(stack: Stack, facts: Facts) -> Finding:
    found = dict(take(facts, "system", "distribution_packages") or {})
    problems = [
        f"{package.name} is {found.get(package.name, 'not installed')}, the lock has {package.version}"
        for package in stack.apt
        if found.get(package.name) != package.version
    ]
    return finding(problems, listed(f"{package.name} {package.version}" for package in stack.apt))


def _adds(stack: Stack) -> bool:
    return bool(stack.added)


L = Tier.LINK
RULES = (
    Rule(id="added.apt", tier=Tier.STATIC, judge=installed, applies=lambda stack: bool(stack.apt),
         why="Each package that the row adds from the distribution is there, in the version of the lock."),
    Rule(id="added.libraries", tier=L, judge=resolved, applies=_adds, needs=("declared.packages",),
         why="Every library that a file of an addition needs is in the image, but for the driver's."),
    Rule(id="added.import", tier=L, judge=imports, applies=_adds, needs=("added.libraries", "link.import"),
         why="Each distribution that the row adds can be imported on its own, in a fresh process."),
    Rule(id="added.origin", tier=L, judge=origin, applies=_adds, needs=("added.import",),
         why="A second copy of an addition that is found before the row's is what trainings run with."),
    Rule(id="added.replaced", tier=L, judge=replaced, applies=_adds, needs=("declared.packages",),
         why="An addition that brings a file of a framework's wheel with other content replaces it."),
    Rule(id="added.hides", tier=L, judge=hides, applies=_adds, needs=("declared.packages",),
         why="An addition that is found before a module or a program of the stack takes over its name."),
    Rule(id="added.startup", tier=L, judge=startup, applies=_adds, needs=("declared.packages",),
         why="A .pth file with code in it runs in each Python, as root while the image is built."),
    Rule(id="added.together", tier=L, judge=together, applies=_adds, needs=("declared.packages",),
         why="pip check finds no distribution that lacks another one, or has another version of it."),
)  # fmt: skip
