"""``site.yaml``: what a site says once, instead of in the environment of everyone who builds there.

Each key is a variable, so file and environment cannot mean different things, and ``host`` asks one
place. A variable that is set goes before the file, and the file before the host's own configuration.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from annotated_types import MaxLen, MinLen
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from stackwright.core.config import yaml_tree
from stackwright.core.config.load import plain, read_text
from stackwright.core.config.messages import EXPECTED, near, place
from stackwright.core.config.yaml_tree import Node, short
from stackwright.core.errors import MatrixError, SiteError

NAME = "site.yaml"
VARIABLE = "STACKWRIGHT_SITE"

STRICT = ConfigDict(extra="forbid", strict=True)
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Texts = Annotated[tuple[Text, ...], MinLen(1), MaxLen(100)]


class Mirrors(TypedDict, total=False):
    """Mirrors of distributions, and of docker.io."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    debian: Annotated[Text, Field(description="Debian's mirror.")]
    ubuntu: Annotated[Text, Field(description="Ubuntu's mirror, with -security and -updates.")]
    images: Annotated[
        Text, Field(description="Mirror of docker.io; none: images are handed in, and no registry is asked.")
    ]


class Index(TypedDict, total=False):
    """Where Python packages come from."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    url: Annotated[Text, Field(description="The index.")]
    extra: Annotated[Texts, Field(description="More indexes.")]
    trusted: Annotated[Texts, Field(description="Hosts whose certificates are not checked.")]


class Proxy(TypedDict, total=False):
    """Proxies, with a password in the address where they ask for one."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    http: Annotated[Text, Field(description="For http.")]
    https: Annotated[Text, Field(description="For https.")]
    without: Annotated[Texts, Field(description="Hosts that are reached without one.")]


class Registry(TypedDict, total=False):
    """Where `publish` sends images. The login is Docker's own."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    address: Annotated[Text, Field(description="HOST[:PORT]/REPOSITORY.")]
    ca: Annotated[Text, Field(description="File of the CA that signed its certificate; else `ca`.")]
    plain: Annotated[bool, Field(description="It speaks http.")]


class Labels(TypedDict, total=False):
    """Labels of the images that are built here. Everyone who has an image can read them."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    vendor: Annotated[Text, Field(description="org.opencontainers.image.vendor: who distributes the images.")]
    url: Annotated[Text, Field(description="org.opencontainers.image.url: where users read about them.")]


class SiteFile(TypedDict, total=False):
    """The settings of the place where images are built. Only `labels` enters an image."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    mirrors: Mirrors
    index: Index
    proxy: Proxy
    ca: Annotated[Text, Field(description="File of all certificate authorities that the site trusts (PEM).")]
    registry: Registry
    signing_key: Annotated[Text, Field(description="File with the site's private key.")]
    cache: Annotated[Text, Field(description="HOST[:PORT]/REPOSITORY for the cache of builds.")]
    sources: Annotated[Text, Field(description="Folder with archives of sources that no index has.")]
    labels: Labels
    builders: Annotated[
        Texts, Field(description="Names from `docker buildx ls`; the first one that answers is used.")
    ]


ADAPTER: TypeAdapter[SiteFile] = TypeAdapter(SiteFile)


@dataclass(frozen=True, slots=True)
class Setting:
    """``variable`` means the same as the key; ``example`` is how the key's value is written."""

    variable: str
    example: str


SETTINGS = {
    ("mirrors", "debian"): Setting("STACKWRIGHT_APT_MIRROR", "http://mirror.example/debian"),
    ("mirrors", "ubuntu"): Setting("STACKWRIGHT_UBUNTU_MIRROR", "http://mirror.example/ubuntu"),
    ("mirrors", "images"): Setting("STACKWRIGHT_IMAGE_MIRROR", "https://mirror.example/hub"),
    ("index", "url"): Setting("PIP_INDEX_URL", "https://pypi.example/simple"),
    ("index", "extra"): Setting("PIP_EXTRA_INDEX_URL", "[https://wheels.example/simple]"),
    ("index", "trusted"): Setting("PIP_TRUSTED_HOST", "[pypi.example]"),
    ("proxy", "http"): Setting("http_proxy", "http://proxy.example:3128"),
    ("proxy", "https"): Setting("https_proxy", "http://proxy.example:3128"),
    ("proxy", "without"): Setting("no_proxy", "[.example, localhost]"),
    ("ca",): Setting("STACKWRIGHT_CA_BUNDLE", "/etc/ssl/certs/site.pem"),
    ("registry", "address"): Setting("STACKWRIGHT_REGISTRY", "registry.example:5000/hpc/images"),
    ("registry", "ca"): Setting("STACKWRIGHT_REGISTRY_CA", "/etc/ssl/certs/registry.pem"),
    ("registry", "plain"): Setting("STACKWRIGHT_REGISTRY_PLAIN", "true"),
    ("signing_key",): Setting("STACKWRIGHT_SIGNING_KEY", "/etc/stackwright/key.pem"),
    ("cache",): Setting("STACKWRIGHT_CACHE", "registry.example:5000/hpc/cache"),
    ("labels", "vendor"): Setting("STACKWRIGHT_VENDOR", "Example University"),
    ("labels", "url"): Setting("STACKWRIGHT_URL", "https://hpc.example/images"),
    ("sources",): Setting("STACKWRIGHT_SOURCES", "/srv/sources"),
    ("builders",): Setting("STACKWRIGHT_BUILDERS", "[farm]"),
}
FILES = (("ca",), ("registry", "ca"), ("signing_key",), ("sources",))
"""Their values are paths, relative to the file that names them."""


def find(named: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the site's file: as named, else of the variable, else ./site.yaml if it is there."""
    if named or environ.get(VARIABLE):
        return named or Path(environ[VARIABLE])
    default = Path(NAME).resolve()
    return default if default.exists() else None


def enter(path: Path | None, environ: MutableMapping[str, str]) -> None:
    """Set what the file says and the environment does not, for this process and all that it starts.

    SiteError, with file and line, for what is wrong in the file.
    """
    known = {name.lower() for name, text in environ.items() if text}
    for name, text in _variables(path) if path else ():
        if name.lower() not in known:
            environ[name] = text


def _variables(path: Path) -> Iterator[tuple[str, str]]:
    values: Any = read(path)
    for keys, setting in SETTINGS.items():
        value = values
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value in (None, False):
            continue
        if keys in FILES:
            value = str(path.resolve().parent / value)
        between = "," if setting.variable == "no_proxy" else " "
        yield (
            setting.variable,
            "1" if value is True else value if isinstance(value, str) else between.join(value),
        )


def read(path: Path) -> SiteFile:
    try:
        root = yaml_tree.parse(read_text(path), str(path))
        return ADAPTER.validate_python(plain(root))
    except ValidationError as error:
        raise _explained(error, root, str(path)) from None
    except MatrixError as error:
        raise SiteError(
            error.cause, place=error.place, hint=f"fix it, or name another: --site {NAME}"
        ) from None


def _explained(error: ValidationError, root: Node, path: str) -> SiteError:
    """Return the problem that stands first in the file, in the user's words."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    placed = [(place(problem["type"], problem["loc"], root), problem) for problem in found]
    mark, first = min(placed, key=lambda pair: (pair[0].line, pair[0].column))
    keys = tuple(step for step in first["loc"] if isinstance(step, str))
    if first["type"] == "extra_forbidden":
        known = _keys(keys[:-1])
        cause = f"unknown key {short(keys[-1])}" + (f" in {keys[-2]!r}" if len(keys) > 1 else "")
        hint = near(keys[-1], known) or f"the keys are {', '.join(known)}"
    else:
        example = SETTINGS[keys].example if keys in SETTINGS else f"{{{_keys(keys)[0]}: …}}"
        wanted = f"must be {EXPECTED.get(first['type'], 'filled')}"
        cause = f"{'.'.join(keys)!r} {wanted}" if keys else "this is no mapping of keys"
        hint = f"write it as in {keys[-1]}: {example}" if keys else f"the keys are {', '.join(_keys(()))}"
    return SiteError(cause, place=f"{path}:{mark.line}:{mark.column}", hint=hint)


def _keys(parents: tuple[str, ...]) -> tuple[str, ...]:
    """Of the mapping at this place."""
    kind: Any = SiteFile
    for parent in parents:
        kind = get_type_hints(kind)[parent]
    return tuple(name for name in get_type_hints(kind) if not name.startswith("__"))


def json_schema() -> dict[str, Any]:
    """JSON schema of site.yaml; docs/site.schema.json is this, written out."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ADAPTER.json_schema()}


def table() -> str:
    """Return the table of keys in docs/site.md."""
    lines = ["| key | variable | as in |", "|---|---|---|"]
    rows = ((".".join(keys), setting) for keys, setting in SETTINGS.items())
    return (
        "\n".join(
            (*lines, *(f"| `{key}` | `{setting.variable}` | `{setting.example}` |" for key, setting in rows))
        )
        + "\n"
    )


if __name__ == "__main__":
    import json

    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
