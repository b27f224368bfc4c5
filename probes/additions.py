"""Facts about what a row adds by pip: whether it imports, goes together, and finds its libraries.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Each module is imported
in a process of its own, as in probes/link.py.
Usage: additions.py FACTS.json NAME[:MODULE[+MODULE…]]… +NAME…
A distribution with a + in front came along with another one: only its libraries are looked at.
"""

import csv
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import machinery

import driver
import link

IMPORT = """
import importlib, json, os, sys
module = importlib.import_module(sys.argv[1])
def where(found):
    return getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", ())), None) or ""
def own(name):
    place, found = os.path.join(sys.argv[2], name), where(sys.modules[name])
    return found == place or found.startswith((place + "/", place + "."))
replaces = [name for name in sys.argv[3:] if name in sys.modules and not own(name)]
print("FACTS" + json.dumps({"file": where(module), "replaces": replaces}))
"""
"""Imports a module, and looks from where modules of others came into the process with it."""
LIMIT = 300
"""Seconds of one import, and of pip."""
MOST = 20
"""Modules of one distribution that are imported, where it does not name them."""
TAIL = 4000
"""Characters of what pip says."""
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are that the environment's own are found before."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def installed():
    """By normal name: the folder of the metadata of each distribution in the environment."""
    found = {}
    for site in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        for folder in sorted(glob.glob(os.path.join(site, "*.dist-info"))):
            with open(os.path.join(folder, "METADATA"), errors="replace") as handle:
                name = re.search(r"^Name: *(\S+)", handle.read(), re.M)
            if name:
                found[normal(name.group(1))] = folder
    return found


def files(folder):
    """Paths of a distribution's files, by its RECORD, relative to the folder of packages."""
    with open(os.path.join(folder, "RECORD"), errors="replace", newline="") as handle:
        return [line[0] for line in csv.reader(handle) if line]


def module_of(path):
    """Parts of the name of the module that a file is; empty where it is none."""
    parts = path.split("/")
    for suffix in [*machinery.EXTENSION_SUFFIXES, ".py"]:
        if parts[-1].endswith(suffix) and not (suffix == ".so" and parts[-1].startswith("lib")):
            parts[-1] = parts[-1][: -len(suffix)]
            return parts if all(re.match(r"[A-Za-z_]\w*$", part) for part in parts) else []
    return []


def modules(paths):
    """What to import: the topmost packages and modules, public ones if there are any."""
    packages = {path.rpartition("/")[0] for path in paths if path.endswith("/__init__.py")}
    found = set()
    for path in paths:
        parts = module_of(path)
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        top = [one for one in above if one in packages]
        if parts:
            found.add(top[0].replace("/", ".") if top else ".".join(parts))
    found = {name[: -len(".__init__")] if name.endswith(".__init__") else name for name in found}
    public = {name for name in found if not name.startswith("_")}
    return sorted(public or found)[:MOST]


def ended(argv, lent=None):
    """Exit code, output and the end of what was said besides; the code is None where there is no end."""
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="2", **(lent or {}))
    argv = [sys.executable, "-B", *argv]
    try:
        done = subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "", "no end after %d s" % LIMIT
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return done.returncode, done.stdout.decode(errors="replace"), " ".join(last)


def imported(module, others):
    """``others`` are modules that the environment has without the additions."""
    argv = ["-c", IMPORT, module, sysconfig.get_path("purelib"), *(name for name in others if name != module)]
    code, text, last = ended(argv, driver.environment(module))
    if code != 0 or "FACTS" not in text:
        return {"error": "exit code %s: %s" % (code, last)}
    facts = json.loads(text[text.rindex("FACTS") + len("FACTS") :].splitlines()[0])
    return {"file": facts["file"], "replaces": facts["replaces"], "error": None}


def checked():
    """What pip says about all distributions together."""
    code, text, last = ended(["-m", "pip", "check", "--disable-pip-version-check"])
    lines = [line.strip() for line in text[:TAIL].splitlines() if line.strip()]
    return {"code": code, "lines": lines, "said": last}


def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as handle:
        return handle.read(4) == b"\x7fELF"


def libraries(folder, brought):
    """By ELF file of a distribution: what its loader does not find, and no other distribution brought.

    Extensions of a framework find its libraries because they are loaded before: they name no folder for them.
    """
    site = os.path.dirname(folder)
    paths = (os.path.normpath(os.path.join(site, name)) for name in files(folder))
    return {
        path: [name for name in link.unresolved(path) if name not in brought]
        for path in paths
        if is_elf(path)
    }


def hashes(folder):
    """By file of a distribution: what its RECORD says about the content; byte code has nothing there."""
    with open(os.path.join(folder, "RECORD"), errors="replace", newline="") as handle:
        return {line[0]: line[1] for line in csv.reader(handle) if len(line) > 1 and line[1]}


def replaced(there, added):
    """By file: the distributions that have it in other bytes, of which one was added and one was not."""
    before = {}
    for name in sorted(set(there) - added):
        for path, digest in hashes(there[name]).items():
            before.setdefault(path, {})[digest] = name
    found = {}
    for name in sorted(added & set(there)):
        for path, digest in hashes(there[name]).items():
            if path in before and digest not in before[path]:
                found[path] = sorted({name, *before[path].values()})
    return found


def names(paths):
    """By the name under which each module is imported: its file."""
    found = {}
    for path in paths:
        parts = module_of(path)
        if parts:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def programs(folder):
    """By its path, each program that a distribution has on the PATH of the environment."""
    place = os.path.join(sys.prefix, "bin", "")
    site = os.path.dirname(folder)
    paths = (os.path.normpath(os.path.join(site, path)) for path in files(folder))
    return [path for path in paths if path.startswith(place)]


def hidden(there, added):
    """By file of an addition: what was there before it and is no longer found, a module or a program."""
    before = {}
    for name in sorted(set(there) - added):
        before.update({module: (path, name) for module, path in names(files(there[name])).items()})
    places = [place for place in SYSTEM.split(":") if not place.startswith(sys.prefix)]
    found = {}
    for name in sorted(added & set(there)):
        for module, path in names(files(there[name])).items():
            if before.get(module, (path,))[0] != path:
                found[path] = {"of": name, "hides": "%s of %s" % before[module]}
        for path in programs(there[name]):
            system = shutil.which(os.path.basename(path), path=":".join(places))
            if system:
                found[path] = {"of": name, "hides": system}
    return found


def startup(there, added):
    """By file of an addition that every Python of the environment runs when it starts: what it is of."""
    found = {}
    for name in sorted(added & set(there)):
        for path in files(there[name]):
            if path.partition(".")[0] in ("sitecustomize", "usercustomize") and "/" not in path:
                found[path] = name
            elif path.endswith(".pth") and "/" not in path:
                with open(os.path.join(os.path.dirname(there[name]), path), errors="replace") as handle:
                    if re.search(r"^import[ \t]", handle.read(), re.M):
                        found[path] = name
    return found


def distribution(folder, named, others):
    with open(os.path.join(folder, "METADATA"), errors="replace") as handle:
        version = re.search(r"^Version: *(\S+)", handle.read(), re.M)
    wanted = named or modules(files(folder))
    found = {module: imported(module, others) for module in wanted}
    return {"version": version.group(1) if version else None, "modules": found, "error": None}


def main(words):
    there = installed()
    brought = {os.path.basename(name) for folder in there.values() for name in files(folder) if ".so" in name}
    added = {word.lstrip("+").partition(":")[0] for word in words}
    facts = {"distributions": {}, "libraries": {}, "check": checked(), "replaced": replaced(there, added)}
    facts.update(hidden=hidden(there, added), startup=startup(there, added))
    every = (modules(files(folder)) for name, folder in there.items() if name not in added)
    others = sorted({name for found in every for name in found if "." not in name})
    for word in words:
        name, _, listed = word.lstrip("+").partition(":")
        if name not in there:
            facts["distributions"][name] = {"error": "it is not installed"}
            continue
        if not word.startswith("+"):
            facts["distributions"][name] = distribution(
                there[name], listed.split("+") if listed else [], others
            )
        facts["libraries"].update(libraries(there[name], brought))
    return facts


if __name__ == "__main__":
    with open(sys.argv[1], "w") as target:
        json.dump(main(sys.argv[2:]), target, indent=1, sort_keys=True)
