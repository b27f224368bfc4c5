"""Attacks Horovod's services of messages: those of a task, of the driver, and of an elastic worker.

A message of the patched Horovod is signed together with what the server says first; an older one is signed
alone, so that it can be sent once more, and is a pickle. Each service is attacked in the form that it speaks.
"""

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import threading

from attack_tools import INTERFACE, LIMIT, LOOPBACK, bait, listening

MAGIC, CHALLENGE = b"HVDWIRE2", 16
"""A server of the patched Horovod speaks first: these bytes, and as many at random."""
LENGTH = 2**31 - 1
"""Bytes that a message says to have: what its length can say in the older form. None are sent."""


def connected(port):
    return socket.create_connection((LOOPBACK, port), LIMIT)


def message(challenge, key, body, length):
    """A message, signed with a key, that says to be of a length. Without a challenge: in the older form."""
    if not challenge:
        return hmac.new(key, body, hashlib.sha256).digest() + struct.pack("i", length) + body
    nonce, size = secrets.token_bytes(16), struct.pack(">Q", length)
    header = nonce + size + hashlib.sha256(body).digest()
    signed = b"HOROVOD-WIRE-2-REQUEST\n" + challenge + header
    return header + hmac.new(key, signed, hashlib.sha256).digest() + body


def answer(connection):
    """Bytes of the answer; 0 where the connection ends without one, None where it is neither in time."""
    try:
        return len(connection.recv(65536))
    except socket.timeout:
        return None
    except OSError:
        return 0


class Target:
    """A service at a port. ``heard`` is how it began to speak to the job's own client."""

    def __init__(self, port, heard):
        self.port, self.speaks_first = port, heard.startswith(MAGIC)

    def challenge(self, connection):
        """What a message has to be signed with; empty for a server that does not speak first."""
        said = b""
        while self.speaks_first and len(said) < len(MAGIC) + CHALLENGE:
            part = connection.recv(len(MAGIC) + CHALLENGE - len(said))
            if not part:
                raise OSError("the service closed a new connection")
            said += part
        return said[len(MAGIC) :]

    def sent(self, make):
        """The answer to the bytes that ``make`` gives for a challenge."""
        with connected(self.port) as connection:
            content = make(self.challenge(connection))
            with contextlib.suppress(OSError):
                connection.sendall(content)
            return answer(connection)

    def fired(self, key):
        """The answer to a pickle, and whether it was executed."""
        with bait() as (payload, executed):
            answered = self.sent(lambda challenge: message(challenge, key, payload, len(payload)))
            return {"answer": answered, "executed": executed()}

    def attacked(self, key, recorded):
        """``recorded`` is what the job's client said on a connection of its own."""
        stranger = secrets.token_bytes(32)
        return {
            "other key": self.fired(stranger),
            "signed pickle": self.fired(key),
            "other key, too long": {"answer": self.sent(lambda one: message(one, stranger, b"", LENGTH))},
            "replayed": {"answer": self.sent(lambda _: recorded), "recorded": len(recorded)},
        }


@contextlib.contextmanager
def recorder(port):
    """A way to a port, and what the first connection over it says and hears."""
    said, heard = bytearray(), bytearray()
    notes = [(said.extend, heard.extend)]

    def copy(source, target, note):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                note(data)
                target.sendall(data)
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, _ = way.accept()
                server = connected(port)
                to_server, to_client = notes.pop() if notes else (len, len)
                for pair in ((client, server, to_server), (server, client, to_client)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    with socket.create_server((LOOPBACK, 0)) as way:
        threading.Thread(target=serve, daemon=True).start()
        yield way.getsockname()[1], said, heard
        way.shutdown(socket.SHUT_RDWR)


def assault(port, key, call):
    """``call`` makes the job's client ask the service for something, at a port."""
    facts = {"listens": listening(port)}
    with recorder(port) as (way, said, heard):
        try:
            facts["served"] = {"value": call(way), "error": None}
        except Exception as error:
            facts["served"] = {"value": None, "error": "%s: %s" % (type(error).__name__, error)}
    facts["attacks"] = Target(port, bytes(heard)).attacked(key, bytes(said))
    return facts


def task(key):
    from horovod.runner.task.task_service import HorovodRunTaskClient, HorovodRunTaskService

    def call(port):
        client = HorovodRunTaskClient(0, {INTERFACE: [(LOOPBACK, port)]}, key, 0, attempts=1)
        client.task_to_task_address_check_completed()
        return service._task_to_task_address_check_completed

    service = HorovodRunTaskService(0, key, [INTERFACE])
    with running(service) as port:
        return assault(port, key, call)


def driver(key):
    from horovod.runner.driver.driver_service import HorovodRunDriverClient, HorovodRunDriverService

    def call(port):
        client = HorovodRunDriverClient({INTERFACE: [(LOOPBACK, port)]}, key, 0)
        client.register_task(0, {INTERFACE: [(LOOPBACK, 1)]}, "hash")
        return bool(service.task_addresses_for_driver(0))

    service = HorovodRunDriverService(1, key, [INTERFACE])
    with running(service) as port:
        return assault(port, key, call)


def worker(key):
    from horovod.runner.elastic import worker as elastic

    told = []

    class Manager:
        def handle_hosts_updated(self, timestamp, update_res):
            told.append(timestamp)

    def call(port):
        client = elastic.WorkerNotificationClient({INTERFACE: [(LOOPBACK, port)]}, key, 0)
        client.notify_hosts_updated(1, elastic.HostUpdateResult.added)
        return told == [1]

    service = elastic.WorkerNotificationService(key, [INTERFACE], Manager())
    with running(service) as port:
        return assault(port, key, call)


@contextlib.contextmanager
def running(service):
    """The port of a service, which runs until the end of the block."""
    try:
        yield service.get_port()
    finally:
        for server in getattr(service, "_servers", None) or [service._server]:
            server.daemon_threads = True  # the end would wait for an attack that keeps the server waiting
        service.shutdown()
