"""TensorBoard: shows the logs of trainings."""

from __future__ import annotations

from stackwright.core.components.component import Component, Field, Kind, Limit, Server
from stackwright.core.model.added.distributions import Addition
from stackwright.core.model.row import Cell

SETUPTOOLS = Limit(
    package="setuptools",
    releases="<2.21",
    below="82",
    why="it imports pkg_resources",
    source="tensorboard 2.20.0, tensorboard/default.py; setuptools 82.0.0 has no pkg_resources",
)


def added(cell: Cell) -> tuple[Addition, ...]:
    return (Addition(requirement=f"tensorboard=={cell.value('tensorboard')}"),)


TENSORBOARD = Component(
    name="tensorboard",
    title="TensorBoard",
    kind=Kind.TOOL,
    package="tensorboard",
    license="Apache-2.0",
    field=Field(
        description="TensorBoard, served behind a token.", example="2.21.0", prefix="tensorboard", cost=0.5,
    ),
    limits=(SETUPTOOLS,),
    added=added,
    server=Server(port=6006, title="TensorBoard", folder="logs"),
)  # fmt: skip
