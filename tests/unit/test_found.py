"""Versions read back under the row's own names, from facts of any shape."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from image_facts import docker_facts, stack

from stackwright.core.checks.observed import found
from stackwright.core.model.record import flatten
from stackwright.core.render import dockerfile

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_a_good_image_shows_every_field_that_it_declares() -> None:
    declared = dict(flatten(dockerfile.declared(stack())))
    seen = dict(found(stack(), docker_facts(stack())))
    assert {name: seen.get(name) for name in declared if name not in ("id", "lock")} == {
        name: value for name, value in declared.items() if name not in ("id", "lock")
    }


def test_a_library_that_one_extension_lacks_is_taken_from_the_other() -> None:
    facts = docker_facts(stack())
    facts["built"]["torch"]["libraries"]["cudnn"] = None
    assert dict(found(stack(), facts))["cudnn"] == "9.1.0.70"
    for layer in ("torch_distributed", "deepspeed", "jax"):
        facts["built"][layer]["libraries"]["cudnn"] = None
    assert "cudnn" not in dict(found(stack(), facts))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(docker_facts(stack()), JSON)))
def test_facts_of_any_shape_are_read(facts: dict[str, Any]) -> None:
    assert all(isinstance(value, str) for _, value in found(stack(), facts))
