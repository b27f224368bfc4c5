"""Facts about libfabric and NCCL's plugin for it, which is started and sends to itself over TCP.

The plugin asks the CUDA runtime for functions of the driver. On a host without one it is lent a runtime that
has these functions, each of which answers that there is no device: what is sent lies in the host's memory. It
also wants an interface besides the loopback one. Where a container has no network, that is shown as another.
Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: ofi.py FACTS.json
"""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import driver
import fabric

LIBFABRIC, PLUGIN, NCCL, RUNTIME = "libfabric.so.1", "libnccl-net-ofi.so", "libnccl.so.2", "libcudart.so"
PROVIDER = "tcp"
NAME = re.compile(rb"aws-ofi-nccl (\d+(?:\.\d+)+)")
NET = re.compile(rb"\bncclNet(?:Plugin)?_v(\d{1,3})\b")
EXPORTED = re.compile(r"\bncclNetPlugin_v(\d{1,3})$", re.M)
NEEDED = re.compile(r"^ *required from (\S+):\n((?: +0x.*\n)+)", re.M)
SECONDS = 60
TAIL = 600

ENVIRONMENT = {"FI_PROVIDER": PROVIDER, "OFI_NCCL_EXCLUDE_TCP_IF": "none", "NCCL_NET_PLUGIN": "ofi"}
"""By itself the plugin sends nothing over the loopback interface."""

SAID = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
int getifaddrs(struct ifaddrs **found)
{
    int (*real)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");
    int result = real(found), others = 0;
    for (struct ifaddrs *one = result ? 0 : *found; one; one = one->ifa_next)
        others += !(one->ifa_flags & IFF_LOOPBACK);
    for (struct ifaddrs *one = result || others ? 0 : *found; one; one = one->ifa_next)
        one->ifa_flags &= ~(unsigned)IFF_LOOPBACK;
    return result;
}
void say(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\\n', stderr);
}
"""
LENT = """
#include <string.h>
static int none(void) { return %(no_device)d; }
static int driver(int *found) { *found = %(runtime)d; return 0; }
static int function(const char *name, void **found, int *status)
{
    *found = strcmp(name, "cuDriverGetVersion") ? (void *)none : (void *)driver;
    if (status) *status = 0;
    return 0;
}
int cudaRuntimeGetVersion(int *found) { return driver(found); }
int cudaGetDriverEntryPoint(const char *name, void **found, unsigned long long flags, int *status)
{ return function(name, found, status); }
int cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version,
                                     unsigned long long flags, int *status)
{ return function(name, found, status); }
"""


def compiled(code, target):
    soname = "-Wl,-soname," + os.path.basename(target)
    argv = ["gcc", "-shared", "-fPIC", soname, "-x", "c", "-", "-ldl", "-o", target]
    subprocess.run(argv, input=code.encode(), check=True)


def runtime():
    """Return the number of the row's CUDA runtime, by the name under which the plugin looks for it."""
    found = ctypes.c_int()
    ctypes.CDLL(RUNTIME).cudaRuntimeGetVersion(ctypes.byref(found))
    return found.value


def path_of(library):
    """Return the file that the loader takes for a name, and what it says against it."""
    error = fabric.loads(library)
    if error:
        return None, error
    ctypes.CDLL(library)
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[-1].strip() for line in maps if "/" in line}
    found = [path for path in sorted(paths) if os.path.basename(path).startswith(library)]
    return (os.path.realpath(found[0]) if found else None), None


def content(path):
    if path is None:
        return b""
    with open(path, "rb") as handle:
        return handle.read()


def numbers(found):
    return sorted({int(number) for number in found})


def needs(path):
    """Return the versions that a library needs of each other library that has versions of its own."""
    text = fabric.output("objdump", "-p", path) or ""
    return {
        library: sorted(line.split()[-1] for line in lines.splitlines())
        for library, lines in NEEDED.findall(text)
        if library.startswith("libfabric")
    }


def plugin():
    path, error = path_of(PLUGIN)
    text = content(path)
    symbols = fabric.output("nm", "-D", "--defined-only", path) if path else None
    release = NAME.search(text)
    return {
        "name": PLUGIN, "path": path, "error": error, "release": release and release.group(1).decode(),
        "nets": numbers(EXPORTED.findall(symbols or "")), "needs": needs(path) if path else {},
    }  # fmt: skip


def libfabric():
    version = re.search(r"^libfabric: (\S+)", fabric.output("fi_info", "--version") or "", re.M)
    providers = re.findall(r"^(\w+):$", fabric.output("fi_info", "--list") or "", re.M)
    return {
        "error": fabric.loads(LIBFABRIC),
        "version": version and version.group(1),
        "providers": sorted(providers),
    }


def nccl():
    path, _ = path_of(NCCL)
    return {"path": path, "asks": numbers(NET.findall(content(path)))}


def child(folder, what, net):
    """Start the plugin in a process of its own: {"error": …} with the end of what it said, where it fails."""
    lent = not driver.there()
    paths = [folder] if lent else []
    extra = {
        "LD_LIBRARY_PATH": ":".join([*paths, os.environ.get("LD_LIBRARY_PATH", "")]).strip(":"),
        "LD_PRELOAD": os.path.join(folder, "libsaid.so"),
    }
    argv = [sys.executable, "-B", os.path.abspath(__file__), folder, what, str(net)]
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=SECONDS, check=False,
            env=dict(os.environ, **ENVIRONMENT, **extra),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": "no end after %d s" % SECONDS, "lent": lent, "net": net}
    if done.returncode:
        said = done.stderr.decode(errors="replace")[-TAIL:].strip()
        return {"error": said or "exit code %d" % done.returncode, "lent": lent, "net": net}
    return dict(json.loads(done.stdout.decode()), lent=lent, net=net)


def main():
    found = {"libfabric": libfabric(), "plugin": plugin(), "nccl": nccl(), "mtl": fabric.components("mtl")}
    both = set(found["plugin"]["nets"]) & set(found["nccl"]["asks"])
    if not both:
        return found
    folder = tempfile.mkdtemp()
    try:
        compiled(SAID, os.path.join(folder, "libsaid.so"))
        if not driver.there():
            code = LENT % {"no_device": driver.NO_DEVICE, "runtime": runtime()}
            compiled(code, os.path.join(folder, RUNTIME))
        found["start"] = child(folder, "start", max(both))
        found["data"] = child(folder, "data", DATA)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


# -- in a process of its own -----------------------------------------------------------------------

DATA = 8
"""The interface by which data is sent: every release of the plugin has it."""
HANDLE, BYTES, HOST, TRIES = 128, 1 << 20, 1, 2000000
"""NCCL_NET_HANDLE_MAXSIZE; what is sent; NCCL_PTR_HOST; calls until something has to have happened."""
LISTEN, CONNECT, ACCEPT, REGISTER, SEND, RECEIVE, TEST = 4, 5, 6, 7, 10, 11, 13
"""Functions of ncclNet_v8_t, by their places in it: net_v8.h."""


class Started:
    """An interface of the plugin: ncclNetPlugin_vN is a name, and then functions."""

    def __init__(self, folder, net):
        self.said = ctypes.CDLL(os.path.join(folder, "libsaid.so"))
        library = ctypes.CDLL(PLUGIN)
        self.table = (ctypes.c_void_p * 24).in_dll(library, "ncclNetPlugin_v%d" % net)
        say = ctypes.cast(self.said.say, ctypes.c_void_p)
        given = [say] if net < 10 else [say, None]
        if net > 10:
            self.context, config = ctypes.c_void_p(), (ctypes.c_int * 16)()
            given = [ctypes.byref(self.context), ctypes.c_uint64(1), ctypes.byref(config), *given]
        self.call(1, *given)

    def call(self, place, *given):
        """Call the function at a place of the table; ncclSuccess is 0."""
        result = ctypes.CFUNCTYPE(ctypes.c_int)(self.table[place])(*given)
        if result:
            sys.exit("function %d of the plugin returned %d" % (place, result))

    def devices(self):
        count = ctypes.c_int()
        self.call(2, ctypes.byref(count))
        names = []
        for device in range(count.value):
            properties = (ctypes.c_char_p * 64)()
            self.call(3, device, ctypes.byref(properties))
            names.append((properties[0] or b"").decode(errors="replace"))
        return names


def until(happened, *steps):
    for _ in range(TRIES):
        for step in steps:
            step()
        if happened():
            return
    sys.exit("nothing happened after %d calls" % TRIES)


def start(folder, net):
    return {"devices": Started(folder, net).devices()}


def data(folder, net):
    """Send from one buffer to another: listen, connect, accept, register, send, receive, test."""
    net = Started(folder, net)
    pointer, byref = ctypes.c_void_p, ctypes.byref
    handle = ctypes.create_string_buffer(HANDLE)
    listener, sender, receiver, none = pointer(), pointer(), pointer(), pointer()
    net.call(LISTEN, 0, handle, byref(listener))
    until(
        lambda: sender.value and receiver.value,
        lambda: sender.value or net.call(CONNECT, 0, handle, byref(sender), byref(none)),
        lambda: receiver.value or net.call(ACCEPT, listener, byref(receiver), byref(none)),
    )
    sent = ctypes.create_string_buffer(os.urandom(BYTES), BYTES)
    received = ctypes.create_string_buffer(BYTES)
    keys = pointer(), pointer()
    for comm, buffer, key in ((sender, sent, keys[0]), (receiver, received, keys[1])):
        net.call(REGISTER, comm, buffer, ctypes.c_size_t(BYTES), HOST, byref(key))
    requests, done = (pointer(), pointer()), (ctypes.c_int(), ctypes.c_int())
    buffers, sizes, tags = (
        (pointer * 1)(ctypes.addressof(received)),
        (ctypes.c_int * 1)(BYTES),
        (ctypes.c_int * 1)(0),
    )
    key = (pointer * 1)(keys[1].value)
    until(
        lambda: requests[0].value and requests[1].value,
        lambda: (
            requests[1].value or net.call(RECEIVE, receiver, 1, buffers, sizes, tags, key, byref(requests[1]))
        ),
        lambda: requests[0].value or net.call(SEND, sender, sent, BYTES, 0, keys[0], byref(requests[0])),
    )
    until(
        lambda: done[0].value and done[1].value,
        *(
            lambda one=one: done[one].value or net.call(TEST, requests[one], byref(done[one]), None)
            for one in (0, 1)
        ),
    )
    same = sum(left == right for left, right in zip(sent.raw, received.raw))
    return {"bytes": BYTES, "same": same}


if __name__ == "__main__":
    if len(sys.argv) == 4:
        text = json.dumps({"start": start, "data": data}[sys.argv[2]](sys.argv[1], int(sys.argv[3])))
        os.write(1, text.encode())
        os._exit(0)  # what the plugin does at the end is none of this
    with open(sys.argv[1], "w") as handle:
        json.dump(main(), handle, indent=1, sort_keys=True)
