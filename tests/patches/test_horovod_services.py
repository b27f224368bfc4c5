"""The services of a Horovod job, as patched, and the way of the job's key to its processes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import pickle
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from horovod_source import Imported

pytest_plugins = ["patched_horovod"]

KEY = bytes(range(32))
OTHER = bytes(32)


class Peer:
    """One connection to a service, which speaks the written protocol and not the code under test."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, 20)
        self.file = self.socket.makefile("rwb")
        greeting = self.file.read(24)
        assert greeting[:8] == b"HVDWIRE2"
        self.challenge = greeting[8:]

    def frame(
        self, body: bytes, *, key: bytes = KEY, challenge: bytes = b"", nonce: bytes = bytes(16)
    ) -> bytes:
        header = struct.pack(">Q", len(body)) + hashlib.sha256(body).digest()
        signed = b"HOROVOD-WIRE-2-REQUEST\n" + (challenge or self.challenge) + nonce + header
        return nonce + header + hmac.new(key, signed, "sha256").digest() + body

    def answer(self, sent: bytes) -> bytes:
        """All that comes back until the service closes the connection."""
        self.file.write(sent)
        self.file.flush()
        self.socket.shutdown(socket.SHUT_WR)
        try:
            return self.file.read()
        except ConnectionResetError:
            return b""
        finally:
            self.socket.close()


def message(name: str, **attributes: object) -> bytes:
    return json.dumps({"message": [f"horovod.runner.common.{name}", attributes]}).encode()


PING = message("util.network.PingRequest")


@pytest.fixture(scope="module")
def service(horovod: Imported) -> Iterator[Any]:
    """A task service: the one that runs commands."""
    found = horovod("runner.task.task_service").HorovodRunTaskService(0, KEY, ["lo"])
    yield found
    found.shutdown()


@pytest.fixture
def address(service: Any) -> tuple[str, int]:
    ((found,),) = service.addresses().values()
    return found  # type: ignore[no-any-return]


def test_what_is_signed_is_answered_and_the_answer_is_signed(address: tuple[str, int]) -> None:
    peer = Peer(address)
    answer = peer.answer(peer.frame(PING))
    header, digest, body = answer[:40], answer[40:72], answer[72:]
    signed = b"HOROVOD-WIRE-2-RESPONSE\n" + peer.challenge + bytes(16) + header
    assert digest == hmac.new(KEY, signed, "sha256").digest()
    assert header == struct.pack(">Q", len(body)) + hashlib.sha256(body).digest()
    assert json.loads(body)["message"][1]["service_name"] == "horovod task service #0"


def test_what_is_not_signed_for_this_connection_is_refused_and_logged(
    address: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    earlier = Peer(address)
    recorded = earlier.frame(PING)
    assert earlier.answer(recorded)
    peers = [Peer(address) for _ in range(5)]
    wrong = {
        "another key": peers[0].frame(PING, key=OTHER),
        "replayed": recorded,
        "another body": peers[2].frame(PING)[: -len(PING)] + PING.replace(b"Ping", b"Pong"),
        "a length of 8 EiB": bytes(16) + struct.pack(">Q", 1 << 62) + bytes(64),
        "a pickle of 0.28.1": bytes(32) + struct.pack("i", 200) + bytes(200),
    }
    for peer, (what, sent) in zip(peers, wrong.items(), strict=True):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "horovod.runner.network"):
            assert peer.answer(sent) == b"", what
        assert any("refused a message from 127.0.0.1" in line for line in caplog.messages), what


def test_a_pickle_is_not_read_even_when_it_is_signed(address: tuple[str, int], tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(tmp_path / "touched"),))

    peer = Peer(address)
    assert peer.answer(peer.frame(pickle.dumps(Touch()))) == b""
    assert not (tmp_path / "touched").exists()


def test_a_service_listens_on_the_interfaces_that_were_chosen(horovod: Imported) -> None:
    """Each address by itself, also where no interface was chosen yet."""
    ours = horovod("runner.util.network").psutil.Process()
    for nics in (["lo"], None):
        service = horovod("runner.common.util.network").BasicService("a service", KEY, nics)
        port = service.get_port()
        bound = {
            net_connection.laddr.ip
            for net_connection in ours.net_connections("inet")
            if net_connection.laddr.port == port
        }
        offered = {ip for found in service.addresses().values() for ip, _ in found}
        service.shutdown()
        assert bound == offered
        assert not bound & {"0.0.0.0", "::"}


def test_client_and_service_speak_to_each_other(horovod: Imported) -> None:
    compute = horovod("runner.common.service.compute_service")
    service = compute.ComputeService(1, 1, KEY, ["lo"])
    client = compute.ComputeClient(service.addresses(), KEY)
    client.register_dispatcher(0, "grpc://here")
    assert client.wait_for_dispatcher_registration(0, 5) == "grpc://here"
    with pytest.raises(IndexError, match="within"):
        client.register_dispatcher(1, "grpc://there")
    with pytest.raises(compute.TimeoutException, match="Timed out"):
        client.wait_for_dispatcher_worker_registration(0, 0.1)
    with pytest.raises(horovod("runner.common.util.network").NoValidAddressesFound):
        compute.ComputeClient(service.addresses(), OTHER)
    service.shutdown()


# -- messages --------------------------------------------------------------------------------------


def test_a_message_arrives_as_it_was_sent(horovod: Imported) -> None:
    messages = horovod("runner.common.util.messages")
    sent = horovod("runner.common.service.task_service").RunCommandRequest("c", {})
    sent.env = {1: (2, [3.5, None, True]), "bytes": b"\xff", "set": {"a"}, "nested": {"x": ("y",)}}
    received = messages.loads(messages.dumps(sent))
    assert type(received) is type(sent)
    assert vars(received) == vars(sent)


@pytest.mark.parametrize(
    "text",
    [b"[]", b"{}", b"3", b'{"dict": []}', b'{"message": ["os.system", {}]}',
     b'{"exception": ["OSError", ""]}', b'{"list": [], "tuple": []}',
     message("util.network.PingRequest", __class__=1), b"\x80\x04N."],
)  # fmt: skip
def test_what_is_no_message_is_refused(horovod: Imported, text: bytes) -> None:
    with pytest.raises(ValueError):
        horovod("runner.common.util.messages").loads(text)


def test_only_the_users_code_is_a_pickle(horovod: Imported) -> None:
    messages = horovod("runner.common.util.messages")
    task = horovod("runner.common.service.task_service")
    assert b"KEEP" not in messages.dumps(task.RegisterCodeResultRequest(("KEEP", 1)))
    assert messages.loads(messages.dumps(task.RegisterCodeResultRequest(("KEEP", 1)))).result == ("KEEP", 1)
    with pytest.raises(TypeError, match="cannot carry"):
        messages.dumps(task.RunCommandRequest(lambda: None, {}))


# -- the key of the job ----------------------------------------------------------------------------


def test_a_key_in_the_environment_is_a_key_or_refused(horovod: Imported) -> None:
    secret = horovod("runner.common.util.secret")
    assert secret.key_from_env(secret.add_key_to_env(KEY, {})) == KEY
    for value in ("", "00", "0" * 63, "0" * 65, "G" * 64, "0" * 64 + "\n"):
        with pytest.raises(RuntimeError, match="_HOROVOD_SECRET_KEY"):
            secret.key_from_env({"_HOROVOD_SECRET_KEY": value})


FAKE_SSH = """#!/bin/sh
echo "$@" > {folder}/argv
while [ "$1" != host ]; do shift; done
shift
exec sh -c "$*"
"""


def test_ssh_hands_over_the_key_and_its_command_line_does_not_hold_it(
    horovod: Imported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ssh"
    fake.write_text(FAKE_SSH.format(folder=tmp_path))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    command, env, stdin = horovod("runner.util.remote").get_remote_command_with_key(
        f"echo $_HOROVOD_SECRET_KEY > {tmp_path}/seen; cat > {tmp_path}/rest", KEY, "host"
    )
    assert horovod("runner.common.util.safe_shell_exec").execute(command, env=env, stdin=stdin) == 0
    assert (tmp_path / "seen").read_text().strip() == KEY.hex()
    assert (tmp_path / "rest").read_text() == ""
    assert KEY.hex() not in (tmp_path / "argv").read_text() + command


def test_the_argument_of_a_task_does_not_hold_the_key(horovod: Imported) -> None:
    driver = horovod("runner.driver.driver_service")
    limit = horovod("runner.common.util.timeout").Timeout(30, "Timed out waiting for {activity}.")
    settings = SimpleNamespace(verbose=2, nics={"eth1", "eth0"}, start_timeout=limit, key=KEY)
    argument = driver.dump_task(1, 2, {"eth0": [("10.0.0.1", 5)]}, settings)
    assert KEY.hex() not in base64.b64decode(argument).decode()
    index, hosts, addresses, loaded = driver.load_task(argument, KEY)
    assert (index, hosts, addresses) == (1, 2, {"eth0": [("10.0.0.1", 5)]})
    assert (loaded.key, loaded.nics, loaded.verbose) == (KEY, ["eth0", "eth1"], 2)
    assert 0 < loaded.start_timeout.remaining() <= 30


def test_mpirun_is_told_the_name_of_the_variable(horovod: Imported, monkeypatch: pytest.MonkeyPatch) -> None:
    mpi, settings = horovod("runner.mpi_run"), horovod("runner.common.util.settings").Settings
    seen: list[str] = []
    monkeypatch.setattr(mpi, "_get_mpi_implementation_flags", lambda *_, **__: ([], [], mpi._OMPI_IMPL))

    def execute(command: str, **_: object) -> int:
        seen.append(command)
        return 0

    monkeypatch.setattr(mpi.safe_shell_exec, "execute", execute)
    env = horovod("runner.common.util.secret").add_key_to_env(KEY, {"PATH": "/bin"})
    mpi.mpi_run(settings(num_proc=1, hosts="localhost:1", key=KEY, run_func_mode=True), None, env, ["cmd"])
    assert "-x PATH -x _HOROVOD_SECRET_KEY" in seen[0]
    assert KEY.hex() not in seen[0]
