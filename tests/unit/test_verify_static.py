"""Checks of files, history and labels: faults that no small image can have."""

from __future__ import annotations

import pytest
from image_facts import ROW, docker_facts, failed, sif_facts

from stackwright.core.model.labels import KEY, OCI, VERSION


def test_unreadable_folders_fail_in_docker() -> None:
    facts = docker_facts(ROW)
    facts["files"]["unreadable"] = ["/root"]
    assert failed(facts) == {"static.scan": "1 folders could not be read: /root"}


@pytest.mark.parametrize(
    "line",
    [
        "RUN |1 https_proxy=http://10.0.0.1:3128 /bin/sh -c true",
        "RUN |1 PIP_INDEX_URL=http://index.example/simple /bin/sh -c true",
        "RUN pip install --index-url http://index.example/simple torch",
        "RUN echo 'deb http://mirror.example/debian trixie main' > /etc/apt/sources.list",
        "RUN echo 'deb [signed-by=/k] https://mirror.example/debian trixie main' > /etc/apt/sources.list",
    ],
)
def test_the_history_tells_nothing_of_the_site(line: str) -> None:
    facts = docker_facts(ROW)
    facts["history"]["lines"].append(line)
    details = failed(facts)
    assert set(details) == {"static.history"}
    assert "example" not in details["static.history"]
    assert "10.0.0.1" not in details["static.history"]


def test_a_key_in_a_wheel_is_public() -> None:
    facts = docker_facts(ROW)
    facts["files"]["private_keys"] = [
        {"path": "/opt/stack/lib/python3.13/site-packages/tornado/test/test.key", "readable": True}
    ]
    assert set(failed(facts)) == {"static.private-key"}, "read from outside, public ones are left out before"
    del facts["files"]["outside"]
    assert failed(facts) == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (VERSION, "0" * 12, "and the key begins with 5e5e5e5e5e5e"),
        (VERSION, "0.28.1", "not in its notation"),
        (f"{OCI}created", "today", "not in its notation"),
        (f"{OCI}licenses", "MIT, GPL", "not in its notation"),
        (f"{OCI}source", "", "source is missing"),
    ],
)
def test_labels_of_registries_are_there_and_in_their_notation(name: str, value: str, said: str) -> None:
    facts = docker_facts(ROW)
    facts["image"]["Config"]["Labels"][name] = value
    assert said in failed(facts)["static.oci-labels"]


def test_a_sif_of_a_definition_file_has_a_version_and_no_key() -> None:
    facts = sif_facts(ROW)
    del facts["labels"][KEY]
    assert failed(facts, world="sif") == {}


def test_what_a_login_node_reads_from_outside_is_what_is_inside() -> None:
    facts = docker_facts(ROW)
    facts["system"]["distribution_packages"]["libpmix2t64"] = "5.0.7-1"
    assert failed(facts) == {}
    facts["system"]["distribution_packages"]["libpmix2t64"] = "4.2.2-1+deb12u1"
    assert "4.2.2 is inside" in failed(facts)["static.cluster-labels"]
    facts = docker_facts(ROW)
    del facts["image"]["Config"]["Labels"]["org.stackwright.glibc"]
    assert "org.stackwright.glibc is None" in failed(facts)["static.cluster-labels"]
