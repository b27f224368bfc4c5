"""Stack to Recipe: the whole build context as bytes. Pure once the templates are loaded."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from stackwright.core.benchmarks import build as benchmarks
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.compiled import build as compiled
from stackwright.core.components.component import Build
from stackwright.core.components.table import extensions, of
from stackwright.core.facts import distributions
from stackwright.core.model.added.distributions import Added, Compiled
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.labels import (
    contents_text,
    of_recipe,
    of_row,
    version,
)
from stackwright.core.model.row import Flavour, Mpi, MpiFlavour, Recipe, Stack
from stackwright.core.ofi import build as ofi
from stackwright.core.ofi import plugin
from stackwright.core.render import package_layers
from stackwright.core.render.configuration import entrypoint, require_cuda, runscript, user
from stackwright.core.render.own_files import minor, own_files
from stackwright.core.render.sources import Sources
from stackwright.core.resolve.bases import PROVIDERS
from stackwright.core.resolve.lockfile import added_pins, pins, toolchain_pins

COPIED = "files"
"""Below it, in the context, lies what the row copies in, at its place in the image."""
PROGRAMS = (b"#!", b"\x7fELF")
"""What the files begin with that can be started."""
BAKE_FILE = "docker-bake.json"

SSH_AND_INIT = ("openssh-client", "openssh-server", "tini")
MPI_DEVELOPMENT = {MpiFlavour.OPENMPI: "libopenmpi-dev", MpiFlavour.MPICH: "libmpich-dev"}


def declared(stack: Stack) -> dict[str, Any]:
    """Return the row as it is written into the image, in JSON types: what must be found inside."""
    allowed = {"allowed": list(stack.allowed)} if stack.allowed else {}
    platform = {"platform": stack.platform.named} if stack.platform.named else {}
    return {
        "id": stack.id,
        "provider": stack.provider,
        "os": stack.os,
        "python": stack.python,
        "gcc": stack.gcc,
        "cuda": stack.cuda,
        "cuda_runtime": stack.cuda_runtime,
        "cudnn": stack.cudnn,
        "nccl": stack.nccl,
        "mpi": {"flavour": stack.mpi.flavour, "version": stack.mpi.version},
        **dict(stack.communication),
        "frameworks": dict(stack.frameworks),
        "gpu_arch": list(stack.gpu_arch),
        "flavour": stack.flavour,
        "patches": list(stack.patches),
        "lock": stack.lock.sha256,
        **allowed,
        **platform,
        **_from_archives(stack),
        **{name: value for name, value in _own(stack).items() if value},
    }


def _from_archives(stack: Stack) -> dict[str, Any]:
    fabric = {"fabric": list(stack.fabric), plugin.NAME: stack.plugin} if stack.plugin else {}
    return fabric | ({nccl_tests.NAME: stack.nccl_tests} if stack.nccl_tests else {})


def _own(stack: Stack) -> dict[str, Any]:
    """Return what the row adds; what it does not add is not in the image's row either."""
    return {
        "pip": {package.name: package.version for package in stack.pip},
        "compile": {package.name: _compiled_from(package) for package in stack.compiled},
        "build-env": {variable.name: variable.value for variable in stack.build_env},
        "apt": {package.name: package.version for package in stack.apt},
        "env": {variable.name: variable.value for variable in stack.env},
        "files": {folder.place: folder.sha256 for folder in stack.files},
        "ports": list(stack.ports),
        "user": stack.user,
        "tools": {tool.name: {"version": tool.version, "port": str(tool.port)} for tool in stack.tools},
        "entrypoint": list(stack.entrypoint),
        "wheels": dict(stack.wheels.hashed()) if stack.wheels else {},
        "import": {
            package.name: list(package.modules) for package in stack.added if _names_modules(package, stack)
        },
    }


def _names_modules(added: Added, stack: Stack) -> bool:
    """Tell whether the row itself says what is imported; of a layer that is a field, that follows from it."""
    return bool(added.modules) and added.name not in [layer.package for layer in of(stack.communication)]


def _wheels(stack: Stack) -> tuple[tuple[str, bytes], ...]:
    return stack.wheels.files if stack.wheels else ()


def _compiled_from(package: Compiled) -> dict[str, Any]:
    return {"version": package.version, "sha256": package.sha256, "environment": dict(package.environment)}


def render(stack: Stack, sources: Sources) -> Recipe:
    """Return the context of one image; the same stack and sources give the same bytes."""
    dockerfile = environment(sources).get_template("Dockerfile.j2").render(**values(stack, sources))
    own = {"layers.json": _layers_json(stack), "image/layers.py": dict(sources.image)["layers.py"]}
    return recipe(stack, {**context(stack, sources), **own, "Dockerfile": (dockerfile + "\n").encode()})


def recipe(stack: Stack, files: Mapping[str, bytes]) -> Recipe:
    ordered = tuple(sorted(files.items()))
    return Recipe(id=stack.id, key=_key(ordered), files=ordered)


def context(stack: Stack, sources: Sources) -> dict[str, bytes]:
    """Return what both a Dockerfile and a definition file take from their folder."""
    files = {
        "requirements.txt": pins(stack.lock).encode(),
        "row.json": (_row_json(stack) + "\n").encode(),
        **own_files(stack, dict(sources.image)),
    }
    if stack.lock.toolchain:
        files["toolchain.txt"] = toolchain_pins(stack.lock).encode()
    if stack.lock.added:
        files["additions.txt"] = added_pins(stack.lock).encode()
    files |= compiled.context(stack, sources)
    for build in builds(stack):
        files |= build.context(stack, sources)
    files |= {f"wheels/{path}": content for path, content in _wheels(stack)}
    return files | {f"{COPIED}{path}": content for folder in stack.files for path, content in folder.placed()}


def _layers_json(stack: Stack) -> bytes:
    return (json.dumps(dict(package_layers.groups(stack)), indent=1) + "\n").encode()


def _row_json(stack: Stack) -> str:
    return json.dumps(declared(stack), sort_keys=True, separators=(",", ":"))


def gpu_test(sources: Sources, reference: str, extensions: Sequence[str], run_flag: str) -> str:
    """Return the Dockerfile of ``build --gpu``; ``run_flag`` asks BuildKit for the device."""
    template = environment(sources).get_template("gpu-test.j2")
    return template.render(reference=reference, extensions=extensions, run_flag=run_flag) + "\n"


def bake(recipes: Iterable[Recipe]) -> str:
    """Return a bake file for all recipes, to put next to their folders: ``docker buildx bake -f``."""
    targets = {
        recipe.id: {
            "context": recipe.id,
            "dockerfile": "Dockerfile",
            "target": "final",
            "tags": [reference(recipe)],
            "labels": dict(of_recipe(recipe)),
            **_platforms(recipe),
        }
        for recipe in recipes
    }
    document = {"group": {"default": {"targets": sorted(targets)}}, "target": targets}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _platforms(recipe: Recipe) -> dict[str, list[str]]:
    """Return the platform of a bake file's target, where the row names one."""
    named = json.loads(dict(recipe.files).get("row.json", b"{}")).get("platform")
    return {"platforms": [named]} if named else {}


def reference(recipe: Recipe) -> str:
    """Return the image's name: the row, and the head of the content key."""
    return f"stackwright/{recipe.id}:{version(recipe)}"


def write_all(recipes: Sequence[Recipe], folder: Path) -> None:
    """One context folder per recipe, and the bake file that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for recipe in recipes:
        write(recipe, folder / recipe.id)
    (folder / BAKE_FILE).write_text(bake(recipes))


def write(recipe: Recipe, folder: Path) -> None:
    """Lay the context out in a folder, with modes that do not depend on the umask: COPY keeps them."""
    for name, content in recipe.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if content.startswith(PROGRAMS) else 0o644)


def _key(files: tuple[tuple[str, bytes], ...]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@functools.lru_cache(maxsize=4)  # compiling the templates takes ten times as long as rendering a row
def environment(sources: Sources) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(dict(sources.templates)),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 (a Dockerfile is not HTML; values are fullmatched when they are read)
    )
    environment.filters["dockerfile_literal"] = dockerfile_literal
    environment.filters["as_run"] = as_run
    return environment


def as_run(lines: str) -> str:
    """Plain lines of bash as what follows the mounts of a RUN."""
    ends = (
        "" if line.endswith("\\") else " \\" if line.endswith(" do") else "; \\"
        for line in lines.splitlines()
    )  # fmt: skip
    found = (f"    {line}{end}" for line, end in zip(lines.splitlines(), ends, strict=True))
    return "\n".join(found).removesuffix("; \\")


def dockerfile_literal(value: str) -> str:
    """Quote for a LABEL: in single quotes nothing is expanded, and there is no way to escape one."""
    if any(char in value for char in "'\\\n\r"):
        raise ValueError(f"{value[:60]!r} cannot be written as one literal of a Dockerfile")
    return f"'{value}'"


def values(stack: Stack, sources: Sources) -> dict[str, Any]:
    """Return what the templates of both worlds may name."""
    known, provider = distributions.known(stack.os), PROVIDERS[stack.provider]
    return {
        "stack": stack,
        "os": known,
        "images": dict(provider.images(stack)),
        "base_template": f"base.{stack.provider}.j2",
        "packages": _packages(stack, known),
        "python": _python(stack, known),
        "python_minor": minor(stack),
        "gcc_release": distributions.gcc_release(stack.gcc),
        "cuda_home": "/opt/cuda" if stack.lock.toolchain else provider.cuda_home,
        "cuda_folder": provider.copies(stack),
        "apt_sections": provider.sections,
        "cuda_arches": " ".join(sorted((arch.replace(".", "") for arch in stack.gpu_arch), key=int)),
        "arch_flags": " ".join(stack.platform.cpu_flags),
        "platform": stack.platform.named,
        "contents_text": contents_text(stack),
        "contents_with": contents_text(stack, " with "),
        "extensions": [name for name, _ in extensions(stack)],
        "builds": builds(stack),
        "installs": any(build.install for build in builds(stack)),
        "compiles": _compiles(stack),
        "compiled_text": _compiled(stack),
        "require_cuda": require_cuda(stack.cuda_runtime or stack.cuda),
        "row_json": _row_json(stack),
        "added": stack.lock.added,
        "own_packages": tuple(f"{package.name}={package.version}" for package in stack.apt),
        "entrypoint": entrypoint(stack),
        "user": user(stack),
        "runscript": runscript(stack),
        "package_layers": (*(name for name, _ in package_layers.groups(stack)), package_layers.REST),
        "labels": labels(stack),
        "matrix": sources.matrix,
        "epoch": EPOCH,
        **compiled.values(stack, sources),
        **{name: value for build in builds(stack) for name, value in build.values(stack, sources).items()},
    }


def _compiles(stack: Stack) -> bool:
    """Tell whether a stage with the compilers is needed."""
    return (
        stack.flavour is Flavour.DEVEL or bool(stack.compiled) or any(build.stage for build in builds(stack))
    )


def _compiled(stack: Stack) -> str:
    """Return the layers that are compiled for the row, as text; the user's own extensions where none is."""
    layers = of(stack.communication)
    return " and ".join(layer.title for layer in layers if layer.build and layer.build.stage) or "extensions"


def builds(stack: Stack) -> tuple[Build, ...]:
    """How the communication layers of the row are built, and NCCL's plugin and tests where it has them."""
    layers = tuple(layer.build for layer in of(stack.communication) if layer.build)
    asked = ((stack.plugin, ofi.BUILD), (stack.nccl_tests, benchmarks.BUILD))
    return (*layers, *(build for release, build in asked if release))


def labels(stack: Stack) -> tuple[tuple[str, str], ...]:
    """Return the labels that the Dockerfile and the definition file set."""
    base = dict(PROVIDERS[stack.provider].images(stack))["BASE_IMAGE"]
    return of_row(stack, base, _row_json(stack))


def _python(stack: Stack, known: distributions.Distribution) -> str:
    """Return the program, whose name is also the head of its packages': the distribution's own is python3."""
    release = minor(stack)
    return "python3" if release == known.python else f"python{release}"


def _packages(stack: Stack, known: distributions.Distribution) -> dict[str, tuple[str, ...]]:
    """Return the distribution's packages of each stage, sorted so that equal sets give equal text."""
    python, gcc = _python(stack, known), distributions.gcc_release(stack.gcc)
    compiler = (f"g++-{gcc}", f"gcc-{gcc}", f"{python}-dev")
    mpi: Mpi = stack.mpi
    toolkit = () if stack.lock.toolchain else PROVIDERS[stack.provider].installs
    tools = (*toolkit, "ccache", "cmake", "make", "patch")
    more = ofi.PACKAGES if stack.plugin else ()
    fabric = ("ibverbs-providers", "libibverbs1", known.package("librdmacm1"), "libucx0", "ucx-utils", *more)
    stages = {
        "base": ("ca-certificates", python, f"{python}-venv"),
        "toolchain": (*compiler, MPI_DEVELOPMENT[mpi.flavour], mpi.flavour.package, *tools),
        "runtime": (*compiler, mpi.flavour.package, *fabric, *SSH_AND_INIT),
    }
    return {stage: tuple(sorted(set(names) - set(known.lacks))) for stage, names in stages.items()}
