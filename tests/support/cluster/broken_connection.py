"""What a broken TLS connection does to another one of its thread: `broken_connection.py CERT KEY [mended]`.

Prints the name of the error that the other one reads: SSLWantReadError, if it only has nothing to read.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading


def pair(certificate: str, key: str) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """A server's end and a client's, connected."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate, key)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    one, other = socket.socketpair()
    made: list[ssl.SSLSocket] = []
    accepting = threading.Thread(target=lambda: made.append(server.wrap_socket(one, server_side=True)))
    accepting.start()
    connected = client.wrap_socket(other)
    accepting.join()
    connected.setblocking(False)
    with contextlib.suppress(ssl.SSLWantReadError):
        connected.recv(1)  # the session's tickets
    return made[0], connected


def main(certificate: str, key: str, *mended: str) -> str:
    if mended:
        from stackwright.build.nodes import tls

        tls.dask_setup()
    sound, broken = pair(certificate, key), pair(certificate, key)
    broken[0].close()
    with contextlib.suppress(OSError):
        broken[1].send(b"x")
    try:
        return repr(sound[1].recv(1))
    except OSError as error:
        return type(error).__name__


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
