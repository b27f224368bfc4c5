"""Facts about an image as its default user sees it: user, versions, packages, loader, environment.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: system.py FACTS.json
"""

import ctypes
import glob
import json
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

try:
    from importlib import metadata
except ImportError:  # before Python 3.8
    metadata = None

PROGRAMS = ("gcc", "g++", "mpirun", "sshd", "ssh", "tini", "nvcc", "horovodrun", "ucx_info", "ibv_devinfo")
ABSENT = 127
UNMADE = "Missing privilege separation directory"
TAIL = 1000
"""Characters that are kept of what a program said that failed."""
SBIN = "/usr/sbin:/sbin"
"""sshd is a program of root, so it is not on the path of the default user."""


def output(*argv):
    """What a program prints, or None if it is absent or fails."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def read(path):
    try:
        with open(path, errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


def os_release():
    pairs = re.findall(r'^(\w+)="?(.*?)"?$', read("/etc/os-release") or "", re.M)
    return dict(pairs, debian_version=(read("/etc/debian_version") or "").strip())


def user():
    uid = os.getuid()
    try:
        entry = pwd.getpwuid(uid)
        name, home = entry.pw_name, entry.pw_dir
    except KeyError:
        name, home = None, None
    return {"uid": uid, "gid": os.getgid(), "name": name, "home": home}


def distribution_packages():
    text = output("dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${db:Status-Status}\\n")
    if text is None:
        return None
    rows = [line.split("\t") for line in text.splitlines()]
    return {name: version for name, version, status in rows if status == "installed"}


def python_packages():
    """Version by normalised name; a name that is installed twice has both versions, joined."""
    found = {}
    for package in metadata.distributions() if metadata else ():
        name = re.sub(r"[-_.]+", "-", package.metadata["Name"] or "?").lower()
        found.setdefault(name, set()).add(package.version)
    return {name: " and ".join(sorted(versions)) for name, versions in found.items()}


def compiler(program):
    """The upstream version; -dumpfullversion is unknown to gcc before 7."""
    full = output(program, "-dumpfullversion") or output(program, "-dumpversion")
    return full.strip() if full else None


SOURCE = """
#include <Python.h>
#include <string>
extern "C" long answer() { return std::string("42").size() + PY_MAJOR_VERSION; }
"""


def ended(argv, text=None):
    """Exit code and output of a program; ABSENT where it does not start or end."""
    try:
        done = subprocess.run(
            argv, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ABSENT, str(error)
    return done.returncode, done.stdout.decode(errors="replace").strip()[-TAIL:]


def failure(*argv, text=b""):
    """The end of what a program prints if it fails; None if it ends well."""
    code, said = ended(argv, text)
    return "code %d: %s" % (code, said) if code else None


def compiled():
    """Why no extension in C++ can be compiled and loaded, as torch.compile does; None where one can."""
    include = __import__("sysconfig").get_path("include")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "answer.so")
        argv = ("g++", "-shared", "-fPIC", "-I", include, "-x", "c++", "-", "-o", target)
        broken = failure(*argv, text=SOURCE.encode())
        if broken:
            return broken
        try:
            right = ctypes.CDLL(target).answer() == 5
        except OSError as error:
            return str(error)
    return None if right else "the compiled function gives a wrong answer"


MODULE = "/usr/local/lib/libnss_caller.so.2"
MODULE_SOURCE = "/usr/local/src/nss-caller.c"


def name_service():
    """Why the module that names users is not what the image's gcc makes of its source; None where it is."""
    source = read(MODULE_SOURCE)
    if source is None or not os.path.exists(MODULE):
        return "%s is missing" % (MODULE if source else MODULE_SOURCE)
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "again.so")
        argv = ("gcc", "-shared", "-fPIC", "-Os", "-s", "-o", target, "-x", "c", "-")
        broken = failure(*argv, text=source.encode())
        if broken:
            return broken
        with open(target, "rb") as made, open(MODULE, "rb") as shipped:
            same = made.read() == shipped.read()
    return None if same else "%s is not what gcc makes of %s" % (MODULE, MODULE_SOURCE)


def ssh():
    """Return why the client or the server rejects its configuration, or None.

    The server is started as in a job: the image has no host key, so one is made. As root it looks
    for a folder that its service makes, after it has read its configuration.
    """
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, "key")
        unkeyed = failure("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        server = ("/usr/sbin/sshd", "-t", "-f", "/etc/ssh/sshd_config", "-h", key)
        unready = unkeyed or failure(*server)
        if unready and UNMADE in unready and len(unready.splitlines()) == 1:
            unready = None
    return {"client": failure("ssh", "-G", "node.invalid"), "server": unready}


def init():
    """Why tini cannot start a program; None where it can."""
    path = shutil.which("tini", path=os.environ.get("PATH", os.defpath) + ":" + SBIN)
    return failure(path, "-s", "--", sys.executable, "-c", "") if path else "there is no tini"


def nvcc():
    text = output("nvcc", "--version") or output("/usr/local/cuda/bin/nvcc", "--version")
    release = re.search(r"release ([0-9.]+)", text or "")
    return release.group(1) if release else None


def driver_library():
    """Every libcuda that the loader can reach, and by which way."""
    reachable = []
    for line in (output("/sbin/ldconfig", "-p") or "").splitlines():
        match = re.match(r"\s*(libcuda\.so\S*) .*=> (\S+)", line)
        if match:
            reachable.append({"path": match.group(2), "way": "ld.so.cache"})
    machine = platform.machine() + "-linux-gnu"
    folders = [
        ("standard folder", folder)
        for folder in ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib/" + machine, "/usr/lib/" + machine)
    ]
    folders += [
        ("LD_LIBRARY_PATH", folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder
    ]
    folders = {os.path.realpath(folder): way for way, folder in reversed(folders)}  # /lib may be /usr/lib
    for folder, way in sorted(folders.items()):
        for name in ("libcuda.so", "libcuda.so.1"):
            if os.path.exists(os.path.join(folder, name)):
                reachable.append({"path": os.path.join(folder, name), "way": way})
    for found in reachable:
        found["bytes"] = os.path.getsize(found["path"]) if os.path.exists(found["path"]) else None
    return {"reachable": reachable, "driver": os.path.exists("/proc/driver/nvidia/version")}


def fabric():
    """The user-space libraries of RDMA: without a provider NCCL falls back to TCP and says nothing."""
    providers, ucx = [], []
    for folder in ("/usr/lib/" + platform.machine() + "-linux-gnu", "/usr/lib64", "/usr/lib"):
        below = os.path.join(folder, "libibverbs")
        if os.path.isdir(below):
            providers += [name for name in os.listdir(below) if name.endswith(".so")]
        if os.path.isdir(folder):
            ucx += [name for name in os.listdir(folder) if name.startswith("libucp.so")]
    cache = output("/sbin/ldconfig", "-p") or ""
    drivers = []
    for path in sorted(glob.glob("/etc/libibverbs.d/*.driver")):
        drivers += re.findall(r"^driver\s+(\S+)", read(path) or "", re.M)
    return {"providers": sorted(providers), "ucx": sorted(ucx), "ibverbs": "libibverbs.so.1" in cache,
            "drivers": drivers}  # fmt: skip


def startable(row):
    """Where the program lies that the row starts every command with; None without one."""
    words = json.loads(row or "{}").get("entrypoint", [])
    return shutil.which(words[0]) if words else None


def main():
    where = os.environ.get("PATH", os.defpath) + ":" + SBIN
    row = read("/etc/stackwright/row.json")
    return {
        "os": os_release(),
        "machine": platform.machine(),
        "user": user(),
        "python": {"version": platform.python_version(), "executable": sys.executable, "prefix": sys.prefix},
        "programs": {name: shutil.which(name, path=where) for name in PROGRAMS},
        "gcc": compiler("gcc"),
        "g++": compiler("g++"),
        "compiled": compiled(),
        "name_service": name_service(),
        "ssh": ssh(),
        "init": init(),
        "mpirun": output("mpirun", "--version"),
        "nvcc": nvcc(),
        "environment": dict(os.environ),
        "distribution_packages": distribution_packages(),
        "python_packages": python_packages(),
        "driver_library": driver_library(),
        "fabric": fabric(),
        "headers": os.path.exists(os.path.join(__import__("sysconfig").get_path("include"), "Python.h")),
        "row": row,
        "entrypoint": startable(row),
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w") as handle:
        json.dump(main(), handle, indent=1, sort_keys=True)
