"""What attacks on Horovod's servers are made of: a payload that does no harm, and requests over HTTP.

A request is signed here by the protocol and not by Horovod's code, so that the two check each other.
"""

import collections
import contextlib
import hashlib
import hmac
import inspect
import os
import pickle
import secrets
import socket
import struct
import tempfile

LIMIT = 10
"""Seconds that a server has for an answer."""
LOOPBACK, INTERFACE = "127.0.0.1", "lo"
LISTEN = "0A"
"""The state of a socket in /proc/net/tcp that waits for connections."""


class Bait:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@contextlib.contextmanager
def bait():
    """A pickle, and a function that says whether it was executed."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        path = os.path.join(folder, "executed")
        yield pickle.dumps(Bait(path), protocol=4), lambda: os.path.exists(path)


Request = collections.namedtuple("Request", "method scope key body")
"""What a request asks for. What its signature says may be another one."""


class Signer:
    """Signs requests with a key, one after another. Source: http_auth.py of the patched Horovod."""

    def __init__(self, key):
        self.key, self.client, self.count = key, secrets.token_hex(16), 0

    def headers(self, port, request):
        self.count += 1
        nonce = "%s-%016x" % (self.client, self.count)
        digest = hashlib.sha256(request.body).hexdigest()
        lines = ("HOROVOD-KV-2-REQUEST", str(port), request.method, request.scope, request.key, nonce, digest)
        text = "".join(line + "\n" for line in lines).encode()
        signature = hmac.new(self.key, text, hashlib.sha256).hexdigest()
        return {"X-Horovod-Nonce": nonce, "X-Horovod-Digest": digest, "X-Horovod-Signature": signature}


def written(request, headers, length=None):
    """Return the request's bytes. ``length`` replaces the length of its body."""
    lines = ["%s /%s/%s HTTP/1.0" % (request.method, request.scope, request.key), "Host: %s" % LOOPBACK]
    if request.method == "PUT" or request.body:
        lines.append("Content-Length: %d" % (len(request.body) if length is None else length))
    lines += ["%s: %s" % pair for pair in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + request.body


def status(port, content):
    """The status of the answer; 0 where the connection ends without one, None where nothing comes in time."""
    try:
        with socket.create_connection((LOOPBACK, port), LIMIT) as connection:
            connection.sendall(content)
            line = connection.makefile("rb").readline(1000).split()
    except socket.timeout:
        return None
    except OSError:
        return 0
    return int(line[1]) if len(line) > 1 and line[1].isdigit() else 0


def listening(port):
    """The addresses that a port of this host is open on, as the kernel has them."""
    return sorted({address for address, number in open_ports() if number == port})


def open_ports():
    for table, family in (("/proc/self/net/tcp", socket.AF_INET), ("/proc/self/net/tcp6", socket.AF_INET6)):
        if not os.path.exists(table):
            continue
        with open(table) as handle:
            rows = [line.split() for line in handle][1:]
        for row in rows:
            address, _, number = row[1].partition(":")
            if row[3] == LISTEN:
                yield readable(address, family), int(number, 16)


def readable(address, family):
    """Of the kernel's notation: words of 32 bits in the host's order, in hexadecimal."""
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    return socket.inet_ntop(family, struct.pack("=%dI" % len(words), *words))


def fits(function, **offered):
    """Those of the arguments that a function has: Horovod without the patches has fewer."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in offered.items() if name in known}
