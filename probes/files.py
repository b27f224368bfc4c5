"""Facts about every file of an image: keys, certificates, leftovers, CUDA libraries, sizes.

Runs inside the image with the image's own Python, best as root, and imports nothing of Stackwright.
Usage: files.py FACTS.json
"""

import base64
import hashlib
import json
import os
import re
import stat
import sys

SKIPPED = ("/proc", "/sys", "/dev", "/.singularity.d")
"""What the engine mounts, or what belongs to the run and not to the image."""

KEY_FOLDERS = ("/etc/ssh/", "/root/", "/home/")
KEY_NAME = re.compile(r"(\.(pem|key)|^ssh_host_\w+_key|^id_(rsa|dsa|ecdsa|ed25519)\w*)$")
CUDA_LIBRARY = re.compile(r"^lib(nccl|cudart|cudnn)(-[0-9a-f]+)?\.so(\.[0-9.]+)?$")
DRIVER_LIBRARY = re.compile(r"^libcuda\.so(\.[0-9.]+)?$")
KEY_LIMIT = 65536
"""Bytes; no private key is larger, and reading more of each file would take minutes."""


def walk(top):
    """Every entry below a folder, as (path, os.DirEntry), and the folders that may not be read."""
    unreadable, entries, folders = [], [], [top]
    while folders:
        folder = folders.pop()
        try:
            found = list(os.scandir(folder))
        except OSError:
            unreadable.append(folder)
            continue
        for entry in found:
            path = os.path.join(folder, entry.name)
            if path in SKIPPED:
                continue
            entries.append((path, entry))
            if entry.is_dir(follow_symlinks=False) and not os.path.ismount(path):
                folders.append(path)
    return entries, unreadable


def holds_private_key(path):
    """Whether a PEM private key is inside; None if the file may not be read."""
    try:
        with open(path, "rb") as handle:
            return re.search(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----", handle.read(KEY_LIMIT)) is not None
    except OSError:
        return None


def private_keys(files):
    """Files that are private keys by their content, or that look like one and may not be read."""
    found = []
    for path, size in files:
        name = os.path.basename(path)
        if size == 0 or not (KEY_NAME.search(name) or (path.startswith(KEY_FOLDERS) and size <= KEY_LIMIT)):
            continue
        inside = holds_private_key(path)
        if inside or (inside is None and not name.endswith(".pub")):
            found.append({"path": path, "readable": inside is not None})
    return found


def certificates(path):
    """Digests of the certificates in a PEM file, by their DER form; None if there is no such file."""
    try:
        with open(path, "rb") as handle:
            blocks = re.findall(
                rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", handle.read(), re.S
            )
    except OSError:
        return None
    return [hashlib.sha256(base64.b64decode(block)).hexdigest() for block in blocks]


def certificate_authorities(files):
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    known = set()
    for path, _ in files:
        if path.startswith("/usr/share/ca-certificates/"):
            known.update(certificates(path) or ())
    inside = certificates(bundle)
    local = [path for path, _ in files if path.startswith("/usr/local/share/ca-certificates/")]
    return {
        "bundle": bundle if inside is not None else None,
        "count": len(inside or ()),
        "known": len(known),
        "extra": sorted(set(inside or ()) - known),
        "local": local,
        "sha256": hashlib.sha256("".join(inside or ()).encode()).hexdigest(),
    }


def leftovers(files):
    """Caches, package lists and site configuration that a build can leave, with their sizes in bytes."""
    places = {
        "pip_cache": re.compile(r"^(/root|/home/[^/]+)/\.cache/(pip|uv)/"),
        "pip_config": re.compile(r"^(/etc/pip\.conf|.*/\.(config/)?pip/pip\.conf|.*/\.netrc)$"),
        "apt_archives": re.compile(r"^/var/cache/apt/(archives/.*\.deb|.*\.bin)$"),
        "apt_lists": re.compile(r"^/var/lib/apt/lists/(?!lock$)"),
        "apt_sources": re.compile(r"^/etc/apt/(sources\.list(\.d/.*\.(list|sources))?|auth\.conf.*)$"),
        "temporary": re.compile(r"^/(tmp|var/tmp|run/secrets)/"),
        "apt_proxy": re.compile(r"^/etc/apt/apt\.conf\.d/.*proxy"),
    }  # fmt: skip
    found = {
        name: [{"path": path, "bytes": size} for path, size in files if size and pattern.search(path)]
        for name, pattern in places.items()
    }
    for entry in found["apt_sources"]:
        entry["sha256"] = digest(entry["path"])
    return found


def digest(path):
    """SHA-256 of a file; None if it may not be read."""
    try:
        with open(path, "rb") as handle:
            return hashlib.sha256(handle.read()).hexdigest()
    except OSError:
        return None


def sizes(entries):
    """Bytes by component: each package of the venv, each nvidia package, then /usr, /opt and others."""
    totals, seen = {}, set()
    for path, info in entries:
        if info.st_nlink > 1:
            if (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
        name = component(path)
        totals[name] = totals.get(name, 0) + info.st_size
    return totals


def component(path):
    inside = re.match(r"^/opt/stack/lib/python[0-9.]+/site-packages/([^/]+)(?:/([^/]+))?", path)
    if inside:
        top, below = inside.groups()
        return "python/nvidia/" + below if top == "nvidia" and below else "python/" + top
    if path.startswith("/opt/stack/"):
        return "python"
    parts = path.split("/")
    return "/".join(parts[:3]) if parts[1] == "usr" and len(parts) > 3 else "/" + parts[1]


def main():
    entries, unreadable = walk("/")
    regular = []
    for path, entry in entries:
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            regular.append((path, info))
    files = [(path, info.st_size) for path, info in regular]
    named = [(path, os.path.basename(path)) for path, _ in entries]
    return {
        "uid": os.getuid(),
        "unreadable": unreadable,
        "private_keys": private_keys(files),
        "host_keys": [path for path, name in named if re.match(r"^ssh_host_\w+_key(\.pub)?$", name)],
        "authorities": certificate_authorities(files),
        "leftovers": leftovers(files),
        "nvcc": [path for path, info in regular if os.path.basename(path) in ("nvcc", "nvcc.real")
                 and info.st_mode & 0o111],
        "cuda_libraries": sorted({os.path.realpath(path) for path, name in named
                                  if CUDA_LIBRARY.match(name) and os.path.exists(path)}),
        "driver_libraries": [path for path, name in named if DRIVER_LIBRARY.match(name)],
        "sizes": sizes(regular),
        "files": len(regular),
    }  # fmt: skip


if __name__ == "__main__":
    with open(sys.argv[1], "w") as handle:
        json.dump(main(), handle, indent=1, sort_keys=True)
