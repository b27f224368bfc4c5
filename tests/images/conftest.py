"""Tests of one finished image. ``build.py probe`` gives the options; by hand, see docs/checks.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import testinfra

from stackwright.model import Stack, Tier, Verdict
from stackwright.probe import STACK, gather
from stackwright.verify import rules, verify

ROOT_AND_USER = {"root": "docker://root@", "user": "docker://"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stackwright", "one image")
    group.addoption("--row-json", type=Path, help="the row with all its versions, as probe.STACK writes it")
    group.addoption("--facts", type=Path, help="folder of the facts that the probes left")
    group.addoption("--world", choices=("docker", "sif"), default="docker")
    group.addoption(
        "--not-run", type=Path, help='JSON object: tier -> why it did not run, as in {"gpu": "none"}'
    )
    group.addoption("--container", help="id of a container of the image that is up (Docker only)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rule_id" in metafunc.fixturenames:
        world = metafunc.config.getoption("world")
        metafunc.parametrize("rule_id", [rule.id for rule in rules(world)])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a container there is no second witness: those tests are left out, and counted as such."""
    if config.getoption("container"):
        return
    alone = [item for item in items if {"host", "root_host"} & set(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=alone)
    items[:] = [item for item in items if item not in alone]


def _path(config: pytest.Config, option: str) -> Path:
    path = config.getoption(option)
    if path is None:
        raise pytest.UsageError(f"--{option.replace('_', '-')} is needed: these tests are about one image")
    return Path(path)


@pytest.fixture(scope="session")
def stack(pytestconfig: pytest.Config) -> Stack:
    return STACK.validate_json(_path(pytestconfig, "row_json").read_bytes())


@pytest.fixture(scope="session")
def facts(pytestconfig: pytest.Config) -> dict[str, Any]:
    return gather(_path(pytestconfig, "facts"))


@pytest.fixture(scope="session")
def not_run(pytestconfig: pytest.Config) -> dict[Tier, str]:
    path = pytestconfig.getoption("not_run")
    return {Tier(tier): reason for tier, reason in json.loads(path.read_text()).items()} if path else {}


@pytest.fixture(scope="session")
def verdict(
    pytestconfig: pytest.Config, stack: Stack, facts: Mapping[str, Any], not_run: Mapping[Tier, str]
) -> Verdict:
    return verify(stack, facts, pytestconfig.getoption("world"), not_run)


@pytest.fixture(scope="session")
def host(pytestconfig: pytest.Config) -> Any:
    """The container as its default user sees it."""
    return testinfra.get_host(ROOT_AND_USER["user"] + pytestconfig.getoption("container"))


@pytest.fixture(scope="session")
def root_host(pytestconfig: pytest.Config) -> Any:
    return testinfra.get_host(ROOT_AND_USER["root"] + pytestconfig.getoption("container"))
