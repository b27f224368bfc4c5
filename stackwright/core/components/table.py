"""All components, which is all that the rest of Stackwright knows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stackwright.core.benchmarks.nccl_tests import SCRIPT as BENCHMARK_SCRIPT
from stackwright.core.compiled.build import SCRIPT
from stackwright.core.components import jupyterlab, keras, mxnet, tensorboard, tensorflow, torch
from stackwright.core.components.component import Component, Kind, Limit, Place, Placed
from stackwright.core.components.deepspeed import component as deepspeed
from stackwright.core.components.horovod import component as horovod
from stackwright.core.components.jax import component as jax
from stackwright.core.components.more import added as of_a_program
from stackwright.core.components.mpi4py import component as mpi4py
from stackwright.core.components.torch_distributed import component as torch_distributed
from stackwright.core.config.own import named_ports
from stackwright.core.facts.distributions import as_numbers
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell, Lock, Stack, Tier
from stackwright.core.ofi.plugin import SCRIPT as PLUGIN_SCRIPT
from stackwright.core.rules.rule import CellRule

COMPONENTS: tuple[Component, ...] = (
    torch.TORCH,
    tensorflow.TENSORFLOW,
    mxnet.MXNET,
    keras.KERAS,
    horovod.HOROVOD,
    torch_distributed.TORCH_DISTRIBUTED,
    mpi4py.MPI4PY,
    deepspeed.DEEPSPEED,
    jax.JAX,
    tensorboard.TENSORBOARD,
    jupyterlab.JUPYTERLAB,
    *of_a_program(),
)
"""In the order in which they are shown."""

PATCHED = next(component for component in COMPONENTS if component.patched)
"""The component whose source is changed for an image."""
KNOWN = tuple(known for component in COMPONENTS for known in component.vulnerabilities)
"""Published vulnerabilities."""
FILES = (
    SCRIPT, PLUGIN_SCRIPT, BENCHMARK_SCRIPT,
    *(path for component in COMPONENTS if component.build for path in component.build.files),
)  # fmt: skip
TEMPLATES = tuple(
    template for component in COMPONENTS if component.build for template in component.build.templates
)
ADVICE = tuple(advice for component in COMPONENTS for advice in component.advice)
BY_NAME = {component.name: component for component in COMPONENTS}


def of_kind(*kinds: Kind) -> tuple[Component, ...]:
    return tuple(component for kind in kinds for component in COMPONENTS if component.kind is kind)


FRAMEWORKS = of_kind(Kind.FRAMEWORK)
COMMUNICATION = of_kind(Kind.COMMUNICATION)
TOOLS = of_kind(Kind.TOOL)
MODULES = tuple(
    component for component in COMPONENTS if component.kind not in (Kind.COMMUNICATION, Kind.TOOL)
)
"""What a row trains with."""


COMPILED = " and ".join(layer.title for layer in COMMUNICATION if layer.build and layer.build.stage)
COMPILERS = " and ".join(component.compiles for component in COMPONENTS if component.compiles)
LAUNCHERS = tuple(name for layer in COMMUNICATION for name, _ in layer.launchers)
"""For sentences: of layers that are compiled, what compiles at run time, what starts ranks."""


def of(versions: Iterable[tuple[str, str]]) -> tuple[Component, ...]:
    """The components of a stack's frameworks, or of its communication layers."""
    return tuple(BY_NAME[name] for name, _ in versions)


def extensions(stack: Stack) -> tuple[tuple[str, str], ...]:
    """Each framework that a communication layer of the stack was compiled for, and the module of that."""
    return tuple(
        (framework.name, f"{layer.name}.{framework.name}")
        for layer in of(stack.communication)
        for framework in of(stack.frameworks)
        if layer.name in dict(framework.called)
    )


def named(stack: Stack, probe: str, tier: Tier) -> tuple[str, ...]:
    """What a probe is asked about in an image, by layers with CUDA: NAME of PROBE=NAME or PROBE=NAME/…"""
    layers = [layer for layer in of(stack.communication) if layer.loads_cuda]
    words = (word for layer in layers for word in layer.words(stack, 1).get(tier, ()))
    return tuple(
        word.removeprefix(f"{probe}=").split("/")[0] for word in words if word.startswith(f"{probe}=")
    )


def built(stack: Stack) -> tuple[str, ...]:
    """What says which libraries of CUDA it loads: extensions by the name of their framework, and layers."""
    return named(stack, "built", Tier.BUILT)


def title(stack: Stack, name: str) -> str:
    """How a name of ``built`` is shown: the module of an extension, or the layer's title."""
    return dict(extensions(stack)).get(name) or BY_NAME[name].title


def joined(stack: Stack) -> tuple[str, ...]:
    """The modules of all layers of a row; empty where it has one layer alone."""
    modules = tuple(module for layer in of(stack.communication) if (module := layer.joins(stack)))
    return modules if len(modules) > 1 else ()


def installed(stack: Stack) -> tuple[str, ...]:
    """The communication layers that are installed in a layer of their own."""
    return tuple(layer.name for layer in of(stack.communication) if layer.build and layer.build.install)


def started_by(names: Iterable[str]) -> tuple[str, ...]:
    """The launchers of some communication layers."""
    return tuple(name for layer in COMMUNICATION if layer.name in names for name, _ in layer.launchers)


def has(component: Component) -> Callable[[Stack], bool]:
    """Whether a row has a communication layer."""
    return lambda stack: component.name in dict(stack.communication)


def any_compiled(stack: Stack) -> bool:
    return bool(extensions(stack))


def imported(stack: Stack) -> tuple[str, ...]:
    """Every module that must be there to import."""
    layers = of(stack.communication)
    return (
        *stack.modules,
        *(module for _, module in extensions(stack)),
        *(module for layer in layers for module in layer.imports(stack)),
    )


def versions(cell: Cell, components: tuple[Component, ...] = MODULES) -> dict[str, str]:
    """The versions that a row names, by component."""
    return {component.name: version for component in components if (version := cell.value(component.name))}


def compiled(cell: Cell) -> tuple[Addition, ...]:
    """Return what is compiled from source for a row: of its components, and what it names itself."""
    present = (component for component in COMPONENTS if cell.value(component.name))
    return (*(addition for component in present for addition in component.compiled(cell)), *cell.compile)


def by_pip(cell: Cell) -> tuple[Addition, ...]:
    """Return what is resolved together with a row's frameworks: of its tools, and what it names itself."""
    return (
        *(addition for tool in TOOLS if cell.value(tool.name) for addition in tool.added(cell)),
        *cell.pip,
    )


def asking(cell: Cell) -> dict[str, tuple[Addition, ...]]:
    """Return each field by which a row adds distributions, with what it asks for."""
    tools = {tool.name: tool.added(cell) for tool in TOOLS if cell.value(tool.name)}
    every = {**tools, "pip": cell.pip, "compile": compiled(cell)}
    return {field: asked for field, asked in every.items() if asked}


def served(cell: Cell) -> dict[str, int]:
    """Return the port of each tool of a row: the one that the row names, or the tool's own."""
    named = named_ports(cell.ports)
    present = (tool for tool in TOOLS if cell.value(tool.name))
    return {tool.name: named.get(tool.name, tool.server.port) for tool in present if tool.server}


def layers(cell: Cell, lock: Lock) -> tuple[tuple[str, str], ...]:
    """The communication layers of a row with their versions; of a part of a package, that of the package."""
    return tuple(
        (name, version if BY_NAME[name].field.versioned else lock.version(BY_NAME[name].package) or "")
        for name, version in versions(cell, COMMUNICATION).items()
    )


FIELDS = (
    "provider", "os", "platform", "python", *(layer.name for layer in COMMUNICATION), "mpi",
    "cuda", "cudnn", "nccl", "gcc",
    *(component.name for component in (*MODULES, *TOOLS)), "gpu_arch", "flavour", "fabric", "benchmarks",
    "test_on_gpu", "pip",
    "compile", "build-env", "apt", "env", "files", "ports", "entrypoint", "user", "wheels",
)  # fmt: skip
"""Of a row, in the order of the notation."""


def rules(first: Place, others: tuple[Placed, ...] = ()) -> tuple[CellRule, ...]:
    """The components' rules of one place, and ``others`` of it, in the order in which they are asked."""
    every = (*(rule for component in COMPONENTS for rule in component.rules), *others)
    placed = [entry for entry in every if first <= entry.at < first + 100]
    return tuple(entry.rule for entry in sorted(placed, key=lambda entry: entry.at))


def lowest_limit(cell: Cell, package: str) -> tuple[str, Limit] | None:
    """The component of the row that sets the lowest limit for a package, and that limit."""
    limits = [
        (component.name, limit)
        for component in reversed(COMPONENTS)
        for limit in component.limits
        if limit.package == package and (version := cell.value(component.name)) and limit.holds(version)
    ]
    return min(limits, key=lambda pair: as_numbers(pair[1].below), default=None)
