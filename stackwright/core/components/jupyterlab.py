"""JupyterLab: notebooks, in the environment of the image."""

from __future__ import annotations

from stackwright.core.components.component import Component, Field, Kind, Server
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell


def added(cell: Cell) -> tuple[Addition, ...]:
    return (Addition(requirement=f"jupyterlab=={cell.value('jupyterlab')}"),)


JUPYTERLAB = Component(
    name="jupyterlab",
    title="JupyterLab",
    kind=Kind.TOOL,
    package="jupyterlab",
    license="BSD-3-Clause",
    field=Field(
        description="JupyterLab, served behind a token.", example="4.6.6", prefix="jupyterlab", cost=0.5,
    ),
    added=added,
    server=Server(port=8888, title="JupyterLab", folder=".", uses_gpu=True),
)  # fmt: skip
