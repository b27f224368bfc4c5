"""The notation of every field, as data. Validation and the editors' JSON schema both come from it.

Versions end up in Dockerfiles and on command lines, so a value is matched whole, in ASCII, against a
notation in which no shell, no template and no package index sees anything but a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeVar

from annotated_types import MaxLen, MinLen
from pydantic import AfterValidator, Discriminator, FailFast, Field, Tag, TypeAdapter
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from stackwright.core.components.component import Component
from stackwright.core.components.table import COMMUNICATION, COMPILED, MODULES, TOOLS
from stackwright.core.config import additions, own
from stackwright.core.config.notation.publishing import PublishFields
from stackwright.core.config.notation.text import ID, MAX_PATTERNS, STRICT, Notation
from stackwright.core.model.target import AMD64, PLATFORMS

NUMBER = "(0|[1-9][0-9]{0,8})"
"""No leading zero: 3.013 and 3.13 would be one version under two names."""
DOTTED = rf"{NUMBER}(\.{NUMBER}){{0,4}}"
PEP440 = (
    rf"{NUMBER}(\.{NUMBER}){{0,4}}((a|b|rc){NUMBER})?(\.post{NUMBER})?(\.dev{NUMBER})?"
    r"(\+[a-z0-9]{1,16}(\.[a-z0-9]{1,16}){0,3})?"
)
EXAMPLE = ID.example


NOTATIONS = {
    "id": ID,
    "python": Notation(rf"{NUMBER}\.{NUMBER}", "3.13"),
    "cuda": Notation(rf"{NUMBER}\.{NUMBER}(\.{NUMBER})?", "12.4"),
    "cudnn": Notation(DOTTED, "9.1.0.70"),
    "nccl": Notation(DOTTED, "2.21.5"),
    "gcc": Notation(DOTTED, "13"),
    **{
        component.name: Notation(
            PEP440 if component.field.pep440 else DOTTED,
            component.field.example,
            pep440=component.field.pep440,
        )
        for component in (*COMMUNICATION, *MODULES, *TOOLS)
        if component.field.versioned
    },
    "version": Notation(DOTTED, "5.0"),
    "gpu_arch": Notation(rf"{NUMBER}\.[0-9]", "8.0"),
    "fabric": Notation(rf"verbs|ofi(={DOTTED})?", "ofi"),
    "benchmarks": Notation(rf"nccl-tests(={DOTTED})?", "nccl-tests"),
    "select": Notation(r"[a-z0-9*?\[\]!._-]{1,63}", "*cuda12*"),
}
"""By the key that holds the string; ``version`` is that of ``mpi``."""

OF_PIP = {
    "pip": Notation(additions.REQUIREMENT, "transformers>=4.45", pep508=True),
    "import": Notation(additions.MODULES, "yaml"),
    "requirements": Notation(additions.FILE, "requirements.txt"),
    "pyproject": Notation(additions.FILE, "pyproject.toml"),
    "extras": Notation(additions.NAME, "train"),
}
"""Strings of ``pip``: a requirement, a module, and a file in the folder of the matrix."""

OF_IMAGE = {
    "apt": Notation(own.PACKAGE, "git"),
    "env": Notation(own.VALUE, "/data/cache"),
    "build-env": Notation(own.SETTING, "-O2 -g1"),
    "files.from": Notation(additions.FILE, "ours"),
    "files.to": Notation(own.PLACE, "/opt/ours"),
    "ports": Notation(own.PORT, "8888"),
    "entrypoint": Notation(own.WORD, "/opt/ours/start"),
    "user": Notation(own.USER, "20001:20001"),
    "wheels": Notation(additions.FILE, "dist"),
}
"""Strings of what a row adds to its image besides Python packages."""
VARIABLE = Notation(own.VARIABLE, "HF_HOME")
OF_COMPILE = {
    "name": Notation(additions.REQUIREMENT, "flash-attn>=2.8", pep508=True),
    "import": OF_PIP["import"],
    "needs": Notation(additions.REQUIREMENT, "packaging", pep508=True),
    "variable": Notation(additions.VARIABLE, "FORCE_CUDA"),
    "env": Notation(additions.SETTING, "1"),
}
"""Strings of ``compile``: a requirement, a module, and variables that its build reads, with their values."""
VARIABLES = {"env": VARIABLE, "build-env": OF_COMPILE["variable"]}
"""Names of variables, by the field that has them."""

T = TypeVar("T")
Axis = Annotated[tuple[T, ...], MinLen(1), FailFast()]

Id = Annotated[
    str, NOTATIONS["id"], Field(description="Name of the row: of its folder, its tag and its lock.")
]
Provider = Annotated[
    Literal["debian", "nvidia"],
    Field(
        description="Where the base comes from: Debian's mirror, or a registry with Ubuntu and nvidia/cuda."
    ),
]
_one_of: Any = Literal
Platform: Any = Annotated[
    _one_of[tuple(PLATFORMS)], Field(description=f"What the image runs on; left out, {AMD64.name}.")
]
Os = Annotated[
    Literal[
        "debian-11", "debian-12", "debian-13",
        "ubuntu-16.04", "ubuntu-18.04", "ubuntu-20.04", "ubuntu-22.04", "ubuntu-24.04",
    ],
    Field(description="Distribution and release of the image."),
]  # fmt: skip
Python = Annotated[str, NOTATIONS["python"], Field(description="Python of the image.")]
Cuda = Annotated[str, NOTATIONS["cuda"], Field(description=f"Release of nvcc, which compiles {COMPILED}.")]
Cudnn = Annotated[str, NOTATIONS["cudnn"], Field(description="cuDNN that the frameworks load.")]
Nccl = Annotated[str, NOTATIONS["nccl"], Field(description=f"NCCL that the frameworks and {COMPILED} load.")]
Gcc = Annotated[str, NOTATIONS["gcc"], Field(description="Host compiler, for nvcc and in the image.")]
TestOnGpu = Annotated[bool, Field(description="Whether the row is also tested on a GPU while it is built.")]
GpuArch = Annotated[
    tuple[Annotated[str, NOTATIONS["gpu_arch"]], ...],
    MinLen(1),
    FailFast(),
    Field(description=f"Compute capabilities that {COMPILED}'s kernels are compiled for."),
]
Flavour = Annotated[
    Literal["runtime", "devel"],
    Field(description="runtime ships no nvcc; devel keeps the CUDA toolkit."),
]
Fabric = Annotated[
    tuple[Annotated[str, NOTATIONS["fabric"]], ...],
    MinLen(1),
    MaxLen(2),
    FailFast(),
    Field(description="verbs, and ofi or ofi=VERSION: libfabric with NCCL's plugin for it."),
]
Benchmarks = Annotated[
    tuple[Annotated[str, NOTATIONS["benchmarks"]], ...],
    MaxLen(1),
    FailFast(),
    Field(description="nccl-tests or nccl-tests=VERSION: NVIDIA's programs that measure NCCL."),
]


class MpiFields(TypedDict):
    """MPI library: both keys are needed."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    flavour: Literal["openmpi", "mpich"]
    version: Annotated[str, NOTATIONS["version"]]


def _mapping(name: str, fields: dict[str, Any], doc: str) -> Any:
    typed: Any = TypedDict
    made = typed(name, fields, total=False)
    made.__doc__, made.__module__, made.__pydantic_config__ = doc, __name__, STRICT
    return made


NamedAddition: Any = _mapping(
    "NamedAddition",
    {
        "name": Required[Annotated[str, OF_PIP["pip"]]],
        "import": Annotated[str, OF_PIP["import"]],
        "index": Literal["extra"],
    },
    "A requirement, what is imported of it, and whether only an extra index of the site may answer it.",
)


class RequirementsFile(TypedDict):
    """A file of requirements in the folder of the matrix, one on each line."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    requirements: Annotated[str, OF_PIP["requirements"]]


class ProjectFile(TypedDict, total=False):
    """A pyproject.toml in the folder of the matrix: its dependencies, and those of some of its extras."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    pyproject: Required[Annotated[str, OF_PIP["pyproject"]]]
    extras: Annotated[tuple[Annotated[str, OF_PIP["extras"]], ...], MaxLen(own.MOST)]


NamedSource: Any = _mapping(
    "NamedSource",
    {
        "name": Required[Annotated[str, OF_COMPILE["name"]]],
        "import": Annotated[str, OF_COMPILE["import"]],
        "env": dict[Annotated[str, OF_COMPILE["variable"]], Annotated[str, OF_COMPILE["env"]]],
        "needs": Annotated[tuple[Annotated[str, OF_COMPILE["needs"]], ...], MaxLen(additions.MOST_COMPILED)],
    },
    "A distribution that is compiled, with variables of its build, and what it needs and does not name.",
)

KINDS = ("[list]", "[file]", "[project]", "[text]", "[item]", "[key]")
"""Of the values of ``pip`` and ``compile``, their entries and keys, as pydantic puts them into the place of a
problem."""


def _tag(mapping: str, other: str) -> Discriminator:
    return Discriminator(lambda value: mapping if isinstance(value, dict) else other)


PipItem = Annotated[
    Annotated[Annotated[str, OF_PIP["pip"]], Tag("[text]")] | Annotated[NamedAddition, Tag("[item]")],
    _tag("[item]", "[text]"),
]


def _kind_of_pip(value: Any) -> str:
    if not isinstance(value, dict):
        return "[list]"
    return "[project]" if "pyproject" in value else "[file]"


Pip = Annotated[
    Annotated[tuple[PipItem, ...], MaxLen(additions.MOST), Tag("[list]")]
    | Annotated[RequirementsFile, Tag("[file]")]
    | Annotated[ProjectFile, Tag("[project]")],
    Discriminator(_kind_of_pip),
    Field(description="Requirements of the row's own, resolved together with the frameworks."),
]

CompileItem = Annotated[
    Annotated[Annotated[str, OF_COMPILE["name"]], Tag("[text]")] | Annotated[NamedSource, Tag("[item]")],
    _tag("[item]", "[text]"),
]
Compile = Annotated[
    tuple[CompileItem, ...],
    MaxLen(additions.MOST_COMPILED),
    Field(description="Distributions that are compiled from source against the row's own packages."),
]


CopiedFolder: Any = _mapping(
    "CopiedFolder",
    {
        "from": Required[Annotated[str, OF_IMAGE["files.from"]]],
        "to": Required[Annotated[str, OF_IMAGE["files.to"]]],
    },
    "A folder next to the matrix, and where its files are in the image.",
)


def _without_credentials(env: dict[str, str]) -> dict[str, str]:
    if own.telling(env.items()):
        raise PydanticCustomError("credential", "a credential")
    return env


def _listed(kind: Any, description: str) -> Any:
    return Annotated[tuple[kind, ...], MaxLen(own.MOST), Field(description=description)]


def _variables(name: str, description: str) -> Any:
    return Annotated[
        dict[Annotated[str, VARIABLES[name]], Annotated[str, OF_IMAGE[name]]],
        MaxLen(own.MOST),
        AfterValidator(_without_credentials),
        Field(description=description, json_schema_extra={"additionalProperties": False}),
    ]


OF_ROWS_IMAGE: dict[str, Any] = {
    "build-env": _variables("build-env", "Variables that are set while the row's sources are compiled."),
    "apt": _listed(Annotated[str, OF_IMAGE["apt"]], "Packages of the distribution, in a layer of their own."),
    "env": _variables("env", "Variables that the image sets."),
    "files": _listed(CopiedFolder, "Folders next to the matrix that are copied in."),
    "ports": _listed(Annotated[str, OF_IMAGE["ports"]], "Ports of its programs; of a tool TOOL=PORT."),
    "entrypoint": _listed(
        Annotated[str, OF_IMAGE["entrypoint"]], "A program and its words, which start each command."
    ),
    "user": Annotated[str, OF_IMAGE["user"], Field(description="Numbers of the image's user.")] | None,
    "wheels": Annotated[str, OF_IMAGE["wheels"], Field(description="Folder of wheels that pip names.")]
    | None,
}
"""What a row adds to its image besides Python packages."""
PARTS = tuple(component.name for component in (*COMMUNICATION, *MODULES) if not component.field.versioned)
"""Components without a version: a row says true."""


def _component(component: Component) -> Any:
    described = Field(description=component.field.description)
    if component.name in PARTS:
        return Annotated[bool, described]
    return Annotated[str, NOTATIONS[component.name], described]


OF_ROW: dict[str, Any] = {
    "provider": Provider,
    "os": Os,
    "platform": Platform | None,
    "python": Python,
    **{layer.name: _component(layer) | None for layer in COMMUNICATION},
    "mpi": MpiFields,
    "cuda": Cuda | None,
    "cudnn": Cudnn | None,
    "nccl": Nccl | None,
    "gcc": Gcc | None,
    **{component.name: _component(component) | None for component in (*MODULES, *TOOLS)},
    "gpu_arch": GpuArch,
    "flavour": Flavour,
    "fabric": Fabric,
    "benchmarks": Benchmarks,
    "test_on_gpu": TestOnGpu,
    "pip": Pip,
    "compile": Compile,
    **OF_ROWS_IMAGE,
}
"""The type of each field of a row."""


if TYPE_CHECKING:
    RowFields = dict[str, Any]
    IncludedRow = dict[str, Any]
    AxesFields = dict[str, Any]
else:
    RowFields = _mapping(
        "RowFields", OF_ROW, "Values of a row, each optional; null is the same as leaving the key out."
    )
    IncludedRow = _mapping(
        "IncludedRow",
        {**OF_ROW, "id": Required[Id]},
        "A row of its own. Fields that it does not give come from ``defaults``.",
    )
    AxesFields = _mapping(
        "AxesFields",
        {name: Axis[kind] for name, kind in OF_ROW.items()},
        "Lists of values; every combination of them is a row.",
    )


class MatrixFile(TypedDict, total=False):
    """The rows that Stackwright builds."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    defaults: Annotated[RowFields, Field(description="Values for every row that does not give its own.")]
    axes: AxesFields
    include: Annotated[tuple[IncludedRow, ...], FailFast(), Field(description="Rows written out.")]
    exclude: Annotated[
        tuple[RowFields, ...], FailFast(), Field(description="Combinations of the axes that are dropped.")
    ]
    select: Annotated[
        tuple[Annotated[str, NOTATIONS["select"]], ...],
        MaxLen(MAX_PATTERNS),
        FailFast(),
        Field(description="Rows (ids or globs) that are taken when the command line names none."),
    ]
    publish: PublishFields


REQUIRED = (
    ("provider",), ("os",), ("python",), tuple(layer.name for layer in COMMUNICATION), ("mpi",),
    ("gpu_arch",),
)  # fmt: skip
"""Fields of which a row must have one, of its own, from an axis or from the defaults."""


def adapter() -> TypeAdapter[MatrixFile]:
    return TypeAdapter(MatrixFile)


def json_schema() -> dict[str, Any]:
    """JSON schema of matrix.yaml; docs/matrix.schema.json is this, written out."""
    schema = adapter().json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


if __name__ == "__main__":
    import json

    print(json.dumps(json_schema(), indent=2))
