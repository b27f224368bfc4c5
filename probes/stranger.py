"""Facts about the user that this runs as, whom the image may not know: name, folders, ssh.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: stranger.py FACTS.json
"""

import getpass
import grp
import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import time

FOLDERS = ("/workspace", "/tmp")
SERVER = "/usr/local/bin/sshd-as-user"
SAID = "it-answers"
PATIENCE = 20
"""Seconds for the server to answer."""


def names():
    """The entries of the user and of the group, and what asking by the name gives back."""
    found = {"uid": os.getuid(), "gid": os.getgid(), "error": None}
    try:
        entry = pwd.getpwuid(os.getuid())
        found.update(
            name=entry.pw_name, home=entry.pw_dir, shell=entry.pw_shell,
            again=pwd.getpwnam(entry.pw_name).pw_uid, group=grp.getgrgid(os.getgid()).gr_name,
            getpass=getpass.getuser(),
        )  # fmt: skip
    except (KeyError, OSError) as error:
        found["error"] = str(error)
    return found


def unwritable(folder):
    """Why no file can be made in a folder; None where one can."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def ssh():
    """Why no command can be run over ssh as this user; None where one can."""
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, "key")
        port = free_port()
        with open(os.path.join(folder, "log"), "w+") as log:
            try:
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
                server = subprocess.Popen(
                    [SERVER, str(port)], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                    env=dict(os.environ, AUTHORIZED_KEYS=key + ".pub", TMPDIR=folder),
                )  # fmt: skip
            except (OSError, subprocess.CalledProcessError) as error:
                return str(error)
            try:
                broken = asked(key, port, server)
            finally:
                server.terminate()
                server.wait()
            log.seek(0)
            return "%s; the server: %s" % (broken, log.read()[-500:].strip()) if broken else None


def asked(key, port, server):
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes")
    words = [word for option in options for word in ("-o", option)]
    argv = ["ssh", "-F", "none", "-i", key, "-p", str(port), *words, "127.0.0.1", "echo %s $(id -u)" % SAID]
    end = time.time() + PATIENCE
    while True:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        said = done.stdout.decode(errors="replace").strip()
        if said == "%s %d" % (SAID, os.getuid()):
            return None
        if time.time() > end or server.poll() is not None or "refused" not in said:
            return "ssh said %r" % said[-300:]
        time.sleep(0.1)


def main():
    home = os.environ.get("HOME", "")
    return {
        "names": names(),
        "home": {"path": home, "unwritable": unwritable(home) if home else "HOME is not set"},
        "folders": {folder: unwritable(folder) for folder in FOLDERS},
        "read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "ssh": ssh(),
    }


if __name__ == "__main__":
    facts = main()
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
