"""What a tool of the row says to a browser with a token and without one, and where it listens.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: tool.py FACTS.json NAME
"""

import glob
import http.client
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar

SERVER = "/usr/local/bin/serve-tool"
PATIENCE, SOON, AGAIN = 120, 20, 20
"""Seconds: for the first answer, for the end of a server, and until a kernel is asked once more."""
LISTENING = "0A"
CLOSED = {
    "jupyterlab": ("/", "/lab", "/api/contents", "/api/kernels"),
    "tensorboard": ("/", "/data/environment"),
}
"""Pages that need the token."""


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def start(name, port, folder, log, **token):
    return subprocess.Popen(
        [SERVER, name, folder, "--port", str(port)], stdout=log, stderr=subprocess.STDOUT, cwd=folder,
        stdin=subprocess.DEVNULL, env=dict(os.environ, **token),
    )  # fmt: skip


def said(log):
    log.seek(0)
    return log.read().decode(errors="replace")


def stop(server):
    server.terminate()
    try:
        server.wait(timeout=SOON)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def without_token(name, folder):
    """Return how it ends with an empty token; None where it serves."""
    with tempfile.TemporaryFile() as log:
        server = start(name, free_port(), folder, log, STACKWRIGHT_TOKEN="")
        try:
            return {"code": server.wait(timeout=SOON), "said": said(log)[-300:]}
        except subprocess.TimeoutExpired:
            return {"code": None, "said": "it was served"}
        finally:
            stop(server)


def status(port, path):
    """Of one answer: its number, and where it leads to."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return {"status": answer.status, "leads": (answer.headers.get("Location") or "").partition("?")[0]}
    finally:
        connection.close()


def answers(server, port):
    """Whether it answers at all, before it ends or the time does."""
    end = time.time() + PATIENCE
    while time.time() < end and server.poll() is None:
        try:
            status(port, "/")
            return True
        except OSError:
            time.sleep(0.2)
    return False


def browser():
    """Goes where it is led, keeps cookies, and knows no proxy."""
    jar = urllib.request.HTTPCookieProcessor(CookieJar())
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)


def page(seen, place, token):
    """The page behind the token: its number and its title."""
    try:
        with seen.open("%s/?token=%s" % (place, token), timeout=60) as answer:
            text = answer.read().decode(errors="replace")
            code = answer.status
    except urllib.error.HTTPError as error:
        text, code = "", error.code
    title = re.search(r"<title>([^<]*)</title>", text)
    return {"status": code, "title": title.group(1).strip() if title else None}


# -- the processes of the server -------------------------------------------------------------------


def family(first):
    """The process and all that it started, also those that have another session."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as handle:
                fields = handle.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.split("/")[2]))
    found, more = [], [first]
    while more:
        one = more.pop()
        found.append(one)
        more += parents.get(one, [])
    return found


def address(text, wide):
    """As /proc/net/tcp writes it: words of 32 bits, each in the order of the machine."""
    place, port = text.split(":")
    words = [bytes.fromhex(place[start : start + 8])[::-1] for start in range(0, len(place), 8)]
    kind = socket.AF_INET6 if wide else socket.AF_INET
    return "%s:%d" % (socket.inet_ntop(kind, b"".join(words)), int(port, 16))


def listens(processes):
    """Every address that one of the processes listens on."""
    inodes = set()
    for path in (path for process in processes for path in glob.glob("/proc/%d/fd/*" % process)):
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(path)))
        except OSError:
            continue
    found = set()
    for name in ("tcp", "tcp6"):
        if os.path.exists("/proc/net/" + name):
            with open("/proc/net/" + name) as handle:
                rows = [line.split() for line in list(handle)[1:]]
            own = [row[1] for row in rows if row[3] == LISTENING and row[9] in inodes]
            found.update(address(one, name == "tcp6") for one in own)
    return sorted(found)


def shown(processes, token):
    """The programs whose arguments have the token: every user of a host can read those."""
    found = []
    for process in processes:
        try:
            with open("/proc/%d/cmdline" % process, "rb") as handle:
                words = handle.read().split(b"\0")
        except OSError:
            continue
        if any(token.encode() in word for word in words):
            found.append(words[0].decode(errors="replace"))
    return found


# -- what is behind the page -----------------------------------------------------------------------


def environment(seen, place, token):
    """Why TensorBoard does not name its version; None where it does."""
    with seen.open(place + "/data/environment", timeout=60) as answer:
        found = json.load(answer).get("version")
    return None if found else "it names no version"


def kernel(seen, place, token):
    """Why a notebook's kernel computes nothing; None where it does."""
    import websocket

    given = {"Authorization": "token " + token}
    asked = urllib.request.Request(place + "/api/kernels", method="POST", data=b"", headers=given)
    with seen.open(asked, timeout=60) as answer:
        which = json.load(answer)["id"]
    channels = "ws%s/api/kernels/%s/channels" % (place[len("http") :], which)
    connection = websocket.create_connection(channels, timeout=60, header=given)
    connection.settimeout(AGAIN)
    header = {"session": "1", "username": "", "version": "5.3", "msg_type": "execute_request"}
    code = {"code": "print(6 * 7)", "silent": False, "store_history": False, "stop_on_error": True}
    end, number = time.time() + PATIENCE, 0
    while time.time() < end:
        number += 1
        sent = {"channel": "shell", "header": dict(header, msg_id=str(number)), "parent_header": {},
                "metadata": {}, "content": code}  # fmt: skip
        connection.send(json.dumps(sent))
        told = heard(connection, websocket.WebSocketTimeoutException)
        if told is not None:
            connection.close()
            return None if told == "42" else "a kernel said %r" % told[:60]
    return "a kernel said nothing"


def heard(connection, late):
    """What a kernel prints; None where it says nothing for a while, as one that is just starting does."""
    end = time.time() + AGAIN
    while time.time() < end:
        try:
            message = json.loads(connection.recv())
        except late:
            return None
        if message.get("msg_type") == "stream" and message["content"]["name"] == "stdout":
            return message["content"]["text"].strip()
    return None


WORKS = {"jupyterlab": kernel, "tensorboard": environment}


def works(name, seen, place, token):
    try:
        return WORKS[name](seen, place, token)
    except Exception as error:  # whatever an image answers
        return "%s: %s" % (type(error).__name__, error)


def served(name, folder):
    token, port = secrets.token_urlsafe(32), free_port()
    file = os.path.join(folder, "token")
    with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as handle:
        handle.write(token + "\n")
    place = "http://127.0.0.1:%d" % port
    with tempfile.TemporaryFile() as log:
        server = start(name, port, folder, log, STACKWRIGHT_TOKEN_FILE=file)
        try:
            if not answers(server, port):
                return {"error": "it does not answer: %s" % said(log)[-600:].strip()}
            wrong = "?token=" + secrets.token_urlsafe(32)
            closed = {path: [status(port, path), status(port, path + wrong)] for path in CLOSED[name]}
            seen = browser()
            found = page(seen, place, token)
            processes = family(server.pid)
            facts = {
                "port": port, "closed": closed, "page": found, "listens": listens(processes),
                "shown": shown(processes, token), "works": works(name, seen, place, token),
            }  # fmt: skip
            facts["printed"] = token in said(log)
            return facts
        finally:
            stop(server)


def main(name):
    with tempfile.TemporaryDirectory() as folder:
        try:
            facts = served(name, folder)
            return dict(facts, uid=os.getuid(), empty=without_token(name, folder))
        except OSError as error:
            return {"error": str(error)}


if __name__ == "__main__":
    facts = main(sys.argv[2])
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
