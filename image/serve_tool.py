#!/usr/local/bin/with-home /opt/stack/bin/python
"""Serve a tool of the row to a browser, behind a token and never without one.

    serve-tool NAME [FOLDER] [--port PORT] [--address ADDRESS]

The token is what the file STACKWRIGHT_TOKEN_FILE contains, or the variable STACKWRIGHT_TOKEN. Without both
one is made, and printed once. It is no argument: every user of a host can read those.
PORT is the row's where none is given. ADDRESS is 127.0.0.1; in a container whose port the engine maps, say
--address 0.0.0.0.
"""

import argparse
import hmac
import json
import os
import re
import secrets
import sys
import tempfile
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

ROW = "/etc/stackwright/row.json"
TOKEN, TOKEN_FILE = "STACKWRIGHT_TOKEN", "STACKWRIGHT_TOKEN_FILE"
NOTATION = re.compile(r"[A-Za-z0-9_-]{20,200}")
LONGEST = 4096
"""Bytes that are read of a file with a token."""


class Refused(Exception):
    """Nothing is served, and the message says why."""


def read_token(path):
    """Return what a file contains. Refuse one of the caller's own that other users can read."""
    try:
        found = Path(path).stat()
        with Path(path).open(encoding="ascii") as handle:
            text = handle.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{TOKEN_FILE}: {error}") from None
    if found.st_uid == os.getuid() and found.st_mode & 0o077:
        raise Refused(f"other users can read {path}: chmod 600 {path}")
    return text.strip()


def take_token(environ):
    """Return the token, and whether it was made here. No process that is started later inherits it."""
    path, given = environ.get(TOKEN_FILE), environ.pop(TOKEN, None)
    if path is None and given is None:
        return secrets.token_urlsafe(32), True
    if path is not None and given is not None:
        raise Refused(f"{TOKEN} and {TOKEN_FILE} are both set, and one of them is needed")
    token = read_token(path) if given is None else given
    if not NOTATION.fullmatch(token):
        raise Refused("a token consists of 20 to 200 letters, digits, _ and -")
    return token, False


# -- TensorBoard, which has no token of its own ----------------------------------------------------


def same(given, wanted):
    """Compare in a time that says nothing of where two texts differ."""
    return hmac.compare_digest(given.encode(), wanted.encode())


def cookies(environ):
    try:
        return SimpleCookie(environ.get("HTTP_COOKIE", ""))
    except CookieError:
        return {}


def without_token(environ, query):
    """Return the address that was asked for, on this server and without the token."""
    path = quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"))
    rest = urlencode([pair for pair in query if pair[0] != "token"])
    return "/" + path.lstrip("/") + ("?" + rest if rest else "")


def behind(application, token, port):
    """Return a WSGI application whose first address has the token, and whose browser then has a cookie."""
    name, session = f"session-{port}", secrets.token_urlsafe(32)

    def answer(environ, start_response):
        held = cookies(environ).get(name)
        if held is not None and same(held.value, session):
            return application(environ, start_response)
        query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        given = [value for key, value in query if key == "token"]
        fixed = [("Cache-Control", "no-store"), ("Content-Type", "text/plain"), ("Content-Length", "0")]
        if given and same(given[0], token):
            cookie = f"{name}={session}; HttpOnly; Path=/; SameSite=Strict"
            place = without_token(environ, query)
            start_response("302 Found", [("Location", place), ("Set-Cookie", cookie), *fixed])
        else:
            start_response("401 Unauthorized", [("WWW-Authenticate", 'Bearer realm="serve-tool"'), *fixed])
        return [b""]

    return answer


def tensorboard(asked, token):
    """Without its server of data, which would listen on a port of its own and ask for no token."""
    from tensorboard import program

    def server(application, flags):
        return program.WerkzeugServer(behind(application, token, asked.port), flags)

    served = program.TensorBoard(server_class=server)
    options = {
        "logdir": asked.folder or "logs",
        "host": asked.address,
        "port": asked.port,
        "load_fast": "false",
    }
    served.configure(["tensorboard", *(f"--{name}={value}" for name, value in options.items())])
    return served.main()


# -- JupyterLab --------------------------------------------------------------------------------------


def jupyterlab(asked, token):
    """The options are no arguments of the process, and go before the files of settings in a user's home.

    Kernels are reached by files of a private folder: what they print could be read on a port by every user.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-") as private:
        os.environ["JUPYTER_RUNTIME_DIR"] = private
        from jupyterlab.labapp import LabApp

        options = {
            "ServerApp.ip": asked.address,
            "ServerApp.port": asked.port,
            "ServerApp.port_retries": 0,
            "ServerApp.open_browser": False,
            "ServerApp.root_dir": Path(asked.folder or ".").resolve(),
            "ServerApp.allow_root": False,
            "ServerApp.allow_unauthenticated_access": False,
            "ServerApp.identity_provider_class": "jupyter_server.auth.identity.PasswordIdentityProvider",
            "KernelManager.transport": "ipc",
            "IdentityProvider.token": token,
            "PasswordIdentityProvider.token": token,
            "PasswordIdentityProvider.hashed_password": "",
            "PasswordIdentityProvider.allow_password_change": False,
        }
        server = LabApp.initialize_server(argv=[f"--{name}={value}" for name, value in options.items()])
        if server.identity_provider.token != token:
            raise Refused("JupyterLab did not take the token")
        server.start()
    return 0


TOOLS = {"jupyterlab": jupyterlab, "tensorboard": tensorboard}


def of_row(path):
    """Return the port of each tool of the row."""
    tools = json.loads(Path(path).read_text(encoding="utf-8")).get("tools", {})
    return {name: int(tool["port"]) for name, tool in tools.items()}


def read_options(argv, ports):
    parser = argparse.ArgumentParser(prog="serve-tool", description="Serve a tool of the row behind a token.")
    parser.add_argument("name", choices=sorted(ports), help="the tool")
    parser.add_argument("folder", nargs="?", help="what it shows: logs, or the notebooks of this folder")
    parser.add_argument("--port", type=int, help="default: the row's")
    parser.add_argument("--address", default="127.0.0.1", help="default: %(default)s")
    asked = parser.parse_args(argv)
    asked.port = asked.port or ports[asked.name]
    if not 1024 <= asked.port <= 65535:
        parser.error("a port of a user is 1024 to 65535")
    return asked


def main(argv, environ, row=ROW):
    asked = read_options(argv, of_row(row))
    try:
        if os.getuid() == 0:
            raise Refused("it is not served as root: start the container as another user")
        token, made = take_token(environ)
        shown = token if made else "TOKEN, which is yours"
        print(f"{asked.name}: http://127.0.0.1:{asked.port}/?token={shown}", file=sys.stderr, flush=True)
        return TOOLS[asked.name](asked, token)
    except Refused as reason:
        print(f"serve-tool: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
