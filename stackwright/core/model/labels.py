"""Labels of an image: their names, and the values that follow from a row, its key and the site. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from stackwright.core.components.table import BY_NAME, of
from stackwright.core.launch.fit import image as cluster
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.row import Recipe, Stack

OCI = "org.opencontainers.image."
"""Source: opencontainers/image-spec, annotations.md."""

ROW, KEY, STACK, PROVIDER = (f"org.stackwright.{name}" for name in ("row", "key", "stack", "provider"))
ALLOWED = "org.stackwright.allowed"
"""The rules that would refuse the row and were allowed; an image of a row without any has no such label."""

LAYER = "org.stackwright.layer"
"""What `build.py layer` put on a row's image, and on which image."""

VERSION, VENDOR, URL = (f"{OCI}{name}" for name in ("version", "vendor", "url"))

NVIDIA_LICENSE = "LicenseRef-NVIDIA-Proprietary"
"""It is not in SPDX's list."""

SHAPES: Mapping[str, re.Pattern[str]] = {
    f"{OCI}{name}": re.compile(pattern)
    for name, pattern in (
        ("title", r".+"),
        ("description", r".+"),
        ("version", r"[0-9a-f]{12}"),
        ("created", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
        ("source", r"https://\S+"),
        ("licenses", r"[A-Za-z0-9.-]+( (AND|OR) [A-Za-z0-9.-]+)*"),
        ("base.name", r"\S+"),
    )
}
"""Labels that every image has, and how the value of each is written."""


def of_row(stack: Stack, base: str, document: str) -> tuple[tuple[str, str], ...]:
    """Return the labels that a Dockerfile and a definition file set.

    ``base`` is the name of the image that the build starts from, ``document`` the row as JSON. The provider
    is not among them: a Docker image inherits that label from its base, where a check compares it.
    """
    contents = f"{contents_text(stack, ' with ')} on {stack.os}"
    created = datetime.fromtimestamp(EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        (f"{OCI}title", stack.id),
        (f"{OCI}description", contents),
        (f"{OCI}created", created),
        (f"{OCI}source", of(stack.communication)[0].source),
        (f"{OCI}licenses", licenses(stack)),
        (f"{OCI}base.name", base),
        (ROW, stack.id),
        *(((ALLOWED, " ".join(stack.allowed)),) if stack.allowed else ()),
        *cluster.labels(stack),
        (STACK, document),
    )


def of_recipe(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the labels that hold the key. A build adds them: a file cannot hold its own digest."""
    return ((KEY, recipe.key), (VERSION, version(recipe)))


def version(recipe: Recipe) -> str:
    """Return the version of a row's image: the head of its key, which is the image's tag as well."""
    return recipe.key[:12]


def contents_text(stack: Stack, between: str = ", ") -> str:
    """Return the frameworks, of which a row can have none, and the communication layers."""
    kinds = (stack.frameworks, stack.communication)
    texts = (", ".join(f"{BY_NAME[name].title} {found}" for name, found in kind) for kind in kinds)
    return between.join(filter(None, texts))


def licenses(stack: Stack) -> str:
    """Return the SPDX expression of the components and NVIDIA's libraries."""
    tools = tuple((tool.name, tool.version) for tool in stack.tools)
    every = of((*stack.communication, *stack.frameworks, *tools))
    return " AND ".join(sorted({NVIDIA_LICENSE, *(component.license for component in every)}))
