"""Tests of one finished image. ``build.py probe`` gives the options; by hand, see docs/checks.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import testinfra

from stackwright.core.checks.judge import rules, verify
from stackwright.core.model.row import Stack, Tier, Verdict
from stackwright.probe import testinfra_apptainer
from stackwright.probe.run import STACK, gather

SEALED = "--containall --no-home --no-privs"
"""No folder of the caller's is there, and /root is the image's."""

testinfra_apptainer.register()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stackwright", "one image")
    group.addoption("--row-json", type=Path, help="the row with all its versions, as probe.STACK writes it")
    group.addoption("--facts", type=Path, help="folder of the facts that the probes left")
    group.addoption("--world", choices=("docker", "sif"), default="docker")
    group.addoption(
        "--not-run", type=Path, help='JSON object: tier -> why it did not run, as in {"gpu": "none"}'
    )
    group.addoption("--container", help="id of a container of the image that is up (Docker)")
    group.addoption("--sif", type=Path, help="the file (SIF)")
    group.addoption("--apptainer", default="apptainer", help="the program")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rule_id" in metafunc.fixturenames:
        world = metafunc.config.getoption("world")
        metafunc.parametrize("rule_id", [rule.id for rule in rules(world)])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What has no second witness is left out, and counted as such."""
    there = config.getoption("container") or config.getoption("sif")
    left_out = [
        item
        for item in items
        if (not there and {"host", "root_host"} & set(getattr(item, "fixturenames", ())))
        or (config.getoption("sif") and item.get_closest_marker("docker_only"))
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


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
    """The container as its default user sees it; the SIF as whoever runs the tests does."""
    return _host(pytestconfig, "docker://")


@pytest.fixture(scope="session")
def root_host(pytestconfig: pytest.Config) -> Any:
    """The container as root; a SIF has no other user than the caller."""
    return _host(pytestconfig, "docker://root@")


def _host(config: pytest.Config, docker: str) -> Any:
    if sif := config.getoption("sif"):
        program = config.getoption("apptainer")
        return testinfra.get_host(str(sif), connection="apptainer", program=program, exec_options=SEALED)
    return testinfra.get_host(docker + config.getoption("container"))
