"""Keras as a package of its own, on TensorFlow."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from stackwright.core.components import tensorflow
from stackwright.core.components.component import Component, Field, Kind, Place, Placed
from stackwright.core.components.shared.wheel_rules import named, release, rule
from stackwright.core.facts.wheels import INDEX
from stackwright.core.model.row import Cell
from stackwright.core.rules.rule import Answer, Clash, Ruling


def _tensorflow(cell: Cell) -> Answer:
    version, found = cell.value("keras"), named(cell, tensorflow.WHEELS)
    needs = dict(found[1].takes).get("keras") if found else None
    if version is None or found is None or not needs:
        return Ruling.SILENT
    if SpecifierSet(needs).contains(version, prereleases=True):
        return Ruling.FITS
    reason = f"tensorflow {found[0]} requires keras {needs}"
    values = (("keras", version), ("tensorflow", found[0]))
    return Clash(values=values, reason=reason, fact=found[1].fact)


KERAS = Component(
    name="keras",
    title="Keras",
    kind=Kind.EXTENSION,
    package="keras",
    license="Apache-2.0",
    field=Field(description="Keras as a package of its own.", example="3.11.3", prefix="keras", cost=1.5),
    indexed=(("keras", "2.0"),),
    requires=lambda cell: (f"keras=={cell.value('keras')}",),
    rules=(
        Placed(
            at=Place.COMPILED + 40,
            rule=rule("keras-tensorflow", ("platform", "keras", "tensorflow"), INDEX, _tensorflow,
                      "Keras is of TensorFlow's own release, or 3"),
        ),
        release(Place.RELEASED, "keras", ("keras",)),
    ),
)  # fmt: skip
