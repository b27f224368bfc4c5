"""Facts about how the frameworks and Horovod's extensions link and load.

Runs inside the image with the image's own Python and imports nothing of Stackwright. Each module is
imported in a process of its own, because the first module that loads a library hides the one that the next
would load.
Usage: link.py FACTS.json MODULE… (as in: torch horovod.torch)
"""

import json
import mmap
import os
import re
import struct
import subprocess
import sys

import driver

LIBRARY = re.compile(r"^lib(nccl|cudart|cudnn|mpi|mpich|cuda)(-[0-9a-f]+)?\.so")
"""libcudnn.so only: cuDNN 8 and later load a family of libcudnn_*.so behind it."""

IMPORT = """
import ctypes, importlib, json, os, re, sys
module = importlib.import_module(sys.argv[1])
extension = {"path": (sys.argv[2:] or [None])[0], "error": None}
if sys.argv[1].startswith("horovod."):
    # Horovod prints a warning and does without an extension that is not there: init() is what it then lacks.
    try:
        ctypes.CDLL(extension["path"] or sys.argv[1] + " has no shared object", mode=ctypes.RTLD_GLOBAL)
        if not hasattr(module, "init"):
            extension["error"] = "it was imported without the extension, and has no init()"
    except OSError as error:
        extension["error"] = str(error)
if sys.argv[1] == "jax":
    module.devices()  # its plugins load their libraries when it is first asked for devices
files = set()
for line in open("/proc/self/maps"):
    path = line.split(None, 5)[5:]
    if path and path[0].startswith("/"):
        files.add(os.path.realpath(path[0].rstrip("\\n")))
facts = {"file": module.__file__, "version": getattr(module, "__version__", None), "mapped": sorted(files)}
facts["extension"] = extension
if sys.argv[1] == "torch":
    facts["cxx11_abi"] = bool(module.compiled_with_cxx11_abi())
    facts["libraries"] = [os.path.join(os.path.dirname(module.__file__), "lib")]
if sys.argv[1] == "tensorflow":
    facts["cxx11_abi"] = "-D_GLIBCXX_USE_CXX11_ABI=1" in module.sysconfig.get_compile_flags()
    facts["libraries"] = [module.sysconfig.get_lib()]
if sys.argv[1] == "mxnet":
    facts["libraries"] = [os.path.dirname(module.__file__)]
if sys.argv[1] == "jax":
    plugin = re.compile("jax_plugins[.]xla_cuda[0-9]+|jax_cuda[0-9]+_plugin")
    names = ["jaxlib", *(name for name in sys.modules if plugin.fullmatch(name))]
    facts["libraries"] = [os.path.dirname(importlib.import_module(name).__file__) for name in names]
print("FACTS" + json.dumps(facts))
"""

FATBIN_MAGIC = 0xBA55ED50


def import_alone(module):
    """Import in a fresh process; what it maps, or the last lines of why it could not."""
    argv = [sys.executable, "-c", IMPORT, module, *extension_files(module)]
    lent = driver.environment(module)
    quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu",
             "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}  # fmt: skip
    environment = dict(os.environ, **quiet, **lent)
    try:
        done = subprocess.run(argv, capture_output=True, timeout=300, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return {"error": "no end of the import after 300 s"}
    text = done.stdout.decode(errors="replace")
    if done.returncode or "FACTS" not in text:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        return {"error": "exit code %d: %s" % (done.returncode, " | ".join(last))}
    facts = json.loads(text[text.rindex("FACTS") + len("FACTS") :])
    mapped = facts.pop("mapped")
    facts["mapped"] = {}
    for path in mapped:
        match = LIBRARY.match(os.path.basename(path))
        if match:
            facts["mapped"].setdefault("lib" + match.group(1), []).append(path)
    facts["error"] = None
    facts["driver_lent"] = bool(lent)
    return facts


def sections(data):
    """Sections of a 64-bit little-endian ELF file: name -> (offset, size, entry size, link)."""
    if data[:6] != b"\x7fELF\x02\x01":
        return {}
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * size) for index in range(count)]
    base, length = rows[names][4], rows[names][5]
    strings = data[base : base + length]
    return {
        strings[row[0]:strings.index(b"\0", row[0])].decode(): (row[4], row[5], row[9], row[6])
        for row in rows
    }  # fmt: skip


def text_at(data, start):
    return data[start : data.find(b"\0", start)].decode(errors="replace")


def dynamic(data, table):
    """NEEDED names and the RPATH or RUNPATH of an ELF file."""
    if ".dynamic" not in table or ".dynstr" not in table:
        return [], ""
    offset, size, _, _ = table[".dynamic"]
    strings = table[".dynstr"][0]
    needed, path = [], ""
    for tag, value in struct.iter_unpack("<qQ", data[offset : offset + size // 16 * 16]):
        if tag == 1:
            needed.append(text_at(data, strings + value))
        elif tag in (15, 29):
            path = text_at(data, strings + value)
    return needed, path


def symbols(data, table):
    """Names of the dynamic symbols, as (defined, undefined)."""
    if ".dynsym" not in table:
        return [], []
    offset, size, _, _ = table[".dynsym"]
    strings = table[".dynstr"][0]
    defined, undefined = [], []
    for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", data[offset : offset + size // 24 * 24]):
        (defined if section else undefined).append(text_at(data, strings + name))
    return defined, undefined


def kernels(data, table):
    """Compute capabilities in .nv_fatbin, as {"sm": ["7.0"], "ptx": ["9.0"]}.

    The section is a row of containers: magic, version, header size, then the size of the entries; an
    entry has its kind (1 PTX, 2 SASS) at 0, header size at 4, size at 8 and architecture at 28.
    """
    found = {"sm": set(), "ptx": set()}
    start, size, _, _ = table.get(".nv_fatbin", (0, 0, 0, 0))
    at, end = start, start + size
    while at + 16 <= end:
        magic, _, header, length = struct.unpack_from("<IHHQ", data, at)
        if magic != FATBIN_MAGIC:
            at += 8
            continue
        entry, stop = at + header, at + header + length
        while entry + 32 <= stop:
            kind, _, head, body = struct.unpack_from("<HHIQ", data, entry)
            (arch,) = struct.unpack_from("<I", data, entry + 28)
            found["ptx" if kind == 1 else "sm"].add("%d.%d" % divmod(arch, 10))
            entry += head + body
        at = stop
    return {kind: sorted(values) for kind, values in found.items()}


def unresolved(path):
    """Libraries and symbol versions that the loader does not find."""
    try:
        done = subprocess.run(["ldd", path], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return ["ldd: %s" % error]
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return sorted({line.split("=>")[0].strip() for line in lines if "not found" in line})


def library(path, full):
    """Facts of one shared object; ``full`` adds symbols and kernels, which only extensions need."""
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        table = sections(data)
        needed, runpath = dynamic(data, table)
        facts = {"needed": needed, "runpath": runpath, "unresolved": unresolved(path)}
        if full:
            defined, undefined = symbols(data, table)
            cuda = re.compile(r"^(nccl[A-Z]|cuda[A-Z]|cu[A-Z])")
            facts["undefined"] = sorted(name for name in undefined if cuda.match(name))
            facts["defined"] = sorted(name for name in defined if cuda.match(name))
            facts["new_abi"] = sum("__cxx11" in name for name in undefined)
            facts["old_abi"] = sum(bool(re.match(r"_ZNK?Ss", name) or "RKSs" in name) for name in undefined)
            facts["kernels"] = kernels(data, table)
    return facts


def shared_objects(place):
    if os.path.isfile(place):
        return [place]
    names = [os.path.join(place, name) for name in sorted(os.listdir(place))]
    return [name for name in names if re.search(r"\.so(\.|$)", name) and not os.path.islink(name)]


def extension_files(module):
    """The shared objects of a Horovod extension, found without importing it."""
    if not module.startswith("horovod."):
        return []
    site = [os.path.join(folder, *module.split(".")) for folder in sys.path]
    for folder in site:
        if os.path.isdir(folder):
            return [path for path in shared_objects(folder) if "mpi_lib" in os.path.basename(path)]
    return []


def main(modules):
    facts = {"modules": {}, "libraries": {}}
    for module in modules:
        found = import_alone(module)
        facts["modules"][module] = found
        extension = module.startswith("horovod.")
        paths = extension_files(module)
        for place in found.get("libraries", ()):
            paths += shared_objects(place)
        for path in paths:
            facts["libraries"][path] = dict(library(path, extension), module=module)
    return facts


if __name__ == "__main__":
    with open(sys.argv[1], "w") as handle:
        json.dump(main(sys.argv[2:]), handle, indent=1, sort_keys=True)
