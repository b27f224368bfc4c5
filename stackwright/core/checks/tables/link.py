"""Checks of what the frameworks and Horovod's extensions load, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stackwright.core.checks.check import (
    Facts,
    Finding,
    MissingFact,
    Rule,
    finding,
    listed,
    same_release,
    take,
)
from stackwright.core.components.table import (
    COMPILED,
    COMPILERS,
    FRAMEWORKS,
    any_compiled,
    extensions,
    imported,
    of,
)
from stackwright.core.model.row import Flavour, MpiFlavour, Stack, Tier

DRIVER = "libcuda.so.1"
"""Not in an image: the driver's own is given to the container when it starts."""
MPI_LIBRARY = {MpiFlavour.OPENMPI: "libmpi", MpiFlavour.MPICH: "libmpich"}
HAND_ON_CUDA = tuple(framework.hands_on_cuda for framework in FRAMEWORKS if framework.hands_on_cuda)
VENV = "/opt/stack"
OF_DISTRIBUTION = "/usr/lib/"
"""Where the distribution's packages have libraries. /usr/local/lib comes before it on the loader's path."""


def _mapped(stack: Stack, facts: Facts, library: str) -> dict[str, list[str]]:
    return {name: _maps(facts, name).get(library, []) for name in imported(stack)}


def _maps(facts: Facts, module: str) -> Mapping[str, list[str]]:
    """A module that could not be imported maps nothing; the check of imports says so."""
    document = take(facts, "link", "modules", module)
    found: Mapping[str, list[str]] = {} if document.get("error") else take(document, "mapped")
    return found


def _libraries(stack: Stack, facts: Facts) -> dict[str, Mapping[str, Any]]:
    return dict(take(facts, "link", "libraries"))


def _extensions(stack: Stack, facts: Facts) -> dict[str, Mapping[str, Any]]:
    """The shared object of each compiled extension, by framework."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, module in extensions(stack):
        every = [library for library in _libraries(stack, facts).values() if library.get("module") == module]
        if not every:
            raise MissingFact(f"{module} has no shared object")
        found[name] = every[0]
    return found


def imports(stack: Stack, facts: Facts) -> Finding:
    compiled = {module for _, module in extensions(stack)}
    errors = {name: _import_error(facts, name, name in compiled) for name in imported(stack)}
    lent = [name for name in errors if take(facts, "link", "modules", name).get("driver_lent")]
    note = f"; a driver that knows no device was lent to {listed(lent)}" if lent else ""
    return finding((f"{name}: {error}" for name, error in errors.items() if error), listed(errors) + note)


def _import_error(facts: Facts, module: str, compiled: bool) -> str | None:
    """A package can import without its extension and say nothing: that has to be there and to load."""
    error: str | None = take(facts, "link", "modules", module, "error")
    if error is None and compiled:
        lost = take(facts, "link", "modules", module, "extension", "error")
        return f"its extension does not load: {lost}" if lost else None
    return error


def origin(stack: Stack, facts: Facts) -> Finding:
    """A second copy that is found first: on PYTHONPATH, by a .pth file, in the user's own folder."""
    minor = ".".join(stack.python.split(".")[:2])
    folder = f"{VENV}/lib/python{minor}/site-packages/"
    files = {name: str(take(facts, "link", "modules", name, "file")) for name in imported(stack)}
    return finding(
        (f"{name} is imported from {path}" for name, path in files.items() if not path.startswith(folder)),
        folder,
    )


def unresolved(stack: Stack, facts: Facts) -> Finding:
    found = _libraries(stack, facts)
    if not found:
        return finding(["no shared object was looked at"])
    missing = {
        path: [name for name in library["unresolved"] if name != DRIVER] for path, library in found.items()
    }
    problems = [f"{path} needs {listed(names)}" for path, names in missing.items() if names]
    return finding(problems, f"{len(found)} shared objects")


def only_one(library: str) -> Callable[[Stack, Facts], Finding]:
    """Exactly one file of the library over all processes: a second one is a second set of its state."""

    def judge(stack: Stack, facts: Facts) -> Finding:
        by_module = _mapped(stack, facts, library)
        files = sorted({path for paths in by_module.values() for path in paths})
        if len(files) == 1:
            return finding((), files[0])
        if not files:
            return finding([f"no process maps {library}"])
        who = [f"{name} maps {' and '.join(paths)}" for name, paths in by_module.items() if paths]
        return finding([f"{len(files)} files: {'; '.join(who)}"])

    return judge


def shared(stack: Stack, facts: Facts) -> Finding:
    """Calls into NCCL and the CUDA runtime leave the extension: a static copy has no undefined symbol.

    An extension that says itself that it was built without one of them has nothing to call. TensorFlow's
    own library exports the calls of the CUDA runtime and hands them on to the libcudart that it loads.
    """
    problems, module_of = [], dict(extensions(stack))
    for name, extension in _extensions(stack, facts).items():
        answers = facts.get("built", {}).get(name, {})
        for what, library, symbol in (("nccl", "libnccl.", "nccl"), ("cuda", "libcudart.", "cuda")):
            if answers.get(f"{what}_built") == 0:
                continue
            outside = any(entry.startswith(symbol) for entry in extension["undefined"])
            sources = (library, *HAND_ON_CUDA) if what == "cuda" else (library,)
            linked = any(entry.startswith(sources) for entry in extension["needed"])
            if not outside or not linked:
                problems.append(f"{module_of[name]} does not call into a shared {library}so")
    return finding(problems)


def compiles(stack: Stack, facts: Facts) -> Finding:
    """Most frameworks bring the compiler that they use at run time."""
    if not any(framework.compiles for framework in of(stack.frameworks)):
        return finding((), f"{listed(stack.modules)} compile nothing with the image's gcc")
    found = take(facts, "compile")
    if found.get("absent"):
        return finding((), str(found["absent"]))
    return finding(
        [str(found["error"])] if found["error"] else [], f"a function compiled in {found['seconds']} s"
    )


def abi(stack: Stack, facts: Facts) -> Finding:
    problems, seen, module_of = [], [], dict(extensions(stack))
    for name, extension in _extensions(stack, facts).items():
        new = take(facts, "link", "modules", name).get("cxx11_abi")
        if new is None:
            continue
        wrong, right = ("old_abi", "new_abi") if new else ("new_abi", "old_abi")
        seen.append(f"{name} {'new' if new else 'old'}")
        if extension[wrong] or not extension[right]:
            problems.append(
                f"{name} has the {'new' if new else 'old'} C++ ABI, and {module_of[name]} asks for "
                f"{extension['new_abi']} symbols of the new and {extension['old_abi']} of the old one"
            )
    return finding(problems, listed(seen))


def mpi(stack: Stack, facts: Facts) -> Finding:
    """MPICH's library is not mapped by that name everywhere; no MPI but the row's may be there."""
    wanted = MPI_LIBRARY[stack.mpi.flavour]
    problems: list[str] = []
    seen: set[str] = set()
    for _, module in extensions(stack):
        found = _maps(facts, module)
        maps = [library for library in MPI_LIBRARY.values() if library in found]
        if maps and maps != [wanted]:
            problems.append(f"{module} maps {' and '.join(maps)}, the row's MPI is {wanted}")
            continue
        files = found.get(wanted, [])
        foreign = [path for path in files if not path.startswith(OF_DISTRIBUTION)]
        problems += [f"{module} maps {path}, which is not mpirun's" for path in foreign]
        if len(files) > 1 and not foreign:
            problems.append(f"{module} maps {' and '.join(files)}")
        seen.update(files)
    return finding(problems, listed(sorted(seen)) or wanted)


def leftover(stack: Stack, facts: Facts) -> Finding:
    """A second copy that nothing loads yet; one that is loaded is the business of the checks above."""
    if stack.flavour is Flavour.DEVEL:
        return finding((), "a devel image ships the toolkit")
    used = {path for name in imported(stack) for paths in _maps(facts, name).values() for path in paths}
    extra = [path for path in take(facts, "files", "cuda_libraries") if path not in used]
    return finding(f"{path} is loaded by nothing" for path in extra)


def stub(stack: Stack, facts: Facts) -> Finding:
    problems = [
        f"{path} looks for libraries in {folder}"
        for path, library in _libraries(stack, facts).items()
        for folder in library["runpath"].split(":")
        if "stubs" in folder.split("/")
    ]
    return finding(problems)


def architectures(stack: Stack, facts: Facts) -> Finding:
    problems, seen, module_of = [], [], dict(extensions(stack))
    for name, extension in _extensions(stack, facts).items():
        missing = [arch for arch in stack.gpu_arch if arch not in extension["kernels"]["sm"]]
        seen.append(f"{module_of[name]}: {' '.join(extension['kernels']['sm'])}")
        if missing:
            problems.append(f"{module_of[name]} has no kernels for {listed(missing)}, only for {seen[-1]}")
    return finding(problems, "; ".join(seen))


def frameworks(stack: Stack, facts: Facts) -> Finding:
    problems, seen = [], []
    for name, version in stack.frameworks:
        found = take(facts, "link", "modules", name).get("version")
        seen.append(f"{name} {found}")
        if found is None or not same_release(version, found):
            problems.append(f"the row declares {name} {version}, the image has {found or 'none'}")
    return finding(problems, listed(seen))


L = Tier.LINK
IMPORTED = ("link.import", "link.origin")
OURS = (*IMPORTED, "declared.cuda-runtime", "declared.cudnn", "declared.nccl")
"""Where another file than the wheel's is loaded, that is the fault, and not that the wheel's is not."""

RULES = (
    Rule(id="link.unresolved", tier=L, judge=unresolved,
         why="Every library that a shared object needs is in the image, but for the driver's."),
    Rule(id="link.import", tier=L, judge=imports, needs=("link.unresolved",),
         why=f"Each framework and each {COMPILED} extension can be imported on its own."),
    Rule(id="link.origin", tier=L, judge=origin, needs=("link.import",),
         why="A second copy of a module that is found before the row's is what trainings run with."),
    Rule(id="link.one-nccl", tier=L, judge=only_one("libnccl"), needs=IMPORTED,
         why="Two NCCL libraries in one image do not share communicators, and hang or crash."),
    Rule(id="link.one-cudart", tier=L, judge=only_one("libcudart"), needs=IMPORTED,
         why="Two CUDA runtimes in one image do not share streams, and the second may not fit the driver."),
    Rule(id="link.one-cudnn", tier=L, judge=only_one("libcudnn"), needs=IMPORTED,
         why="Two cuDNN libraries mix up their parts, which are loaded by name at run time."),
    Rule(id="link.shared", tier=L, judge=shared, applies=any_compiled, needs=IMPORTED,
         why="NCCL or the CUDA runtime linked into an extension is a second copy that no list shows."),
    Rule(id="link.cxx-abi", tier=L, judge=abi, applies=any_compiled, needs=IMPORTED,
         why="Strings of the old and of the new C++ ABI do not fit together and corrupt memory."),
    Rule(id="link.mpi", tier=L, judge=mpi, applies=any_compiled, needs=IMPORTED,
         why="The extension loads the MPI that mpirun belongs to; another starts N times rank 0 of 1."),
    Rule(id="link.leftover-cuda", tier=L, judge=leftover, needs=OURS,
         why="A second NCCL, CUDA runtime or cuDNN that nothing loads waits for a changed search path."),
    Rule(id="link.stub-path", tier=L, judge=stub,
         why="A library that searches a folder of stubs finds the stub libcuda before the driver's."),
    Rule(id="link.compile", tier=L, judge=compiles, needs=("static.compiler", *IMPORTED),
         why=f"{COMPILERS} makes C++ and compiles it at run time; a part of gcc that is gone fails there."),
    Rule(id="declared.gpu-arch", tier=L, judge=architectures, applies=any_compiled, needs=("link.import",),
         why=f"{COMPILED}'s own kernels exist for each GPU architecture of the row."),
    Rule(id="declared.frameworks", tier=L, judge=frameworks, needs=IMPORTED,
         why="Each framework that is imported has the version that the row declares."),
)  # fmt: skip
