"""Says what is wrong in the facts that the probes left, and fails if anything is: the end of %test.

Runs inside the image with the image's own Python and imports nothing of Stackwright, which judges the same
facts by more checks from outside.
Usage: judge.py FOLDER EXTENSION…
"""

import glob
import json
import os
import re
import sys

NEEDED = ("mpi_built", "nccl_built")
REFUSED = 403
CLEAN = "No broken requirements found."
OF_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


def load(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path) as handle:
            found[os.path.basename(path)[: -len(".json")]] = json.load(handle)
    return found


def errors(facts, place):
    """Each "error" that is not None, at whatever depth."""
    if isinstance(facts, dict):
        for name, value in sorted(facts.items()):
            if name == "error" and value is not None:
                yield "%s: %s" % (place, value)
            else:
                yield from errors(value, "%s, %s" % (place, name))


def static(facts):
    for path in facts["files"]["host_keys"]:
        yield "files: %s is a host key of sshd" % path
    row = json.loads(facts["system"]["row"] or "{}")
    packages = facts["system"]["python_packages"]
    layers = {"horovod": row["horovod"]} if "horovod" in row else {}
    for name, version in sorted(dict(row["frameworks"], **layers).items()):
        shipped = packages.get(name) or of_cuda(name, packages)
        if shipped.partition("+")[0] != version.partition("+")[0]:
            yield "system: the row says %s %s, and %s is there" % (name, version, shipped)


def of_cuda(name, packages):
    """The version of the package that has CUDA's release in its name, as MXNet's: mxnet-cu112."""
    found = [version for package, version in packages.items() if re.fullmatch(name + r"-cu\d+", package)]
    return found[0] if found else "none"


def fabric(facts):
    found = facts["fabric"]
    libraries = dict(found["providers"], **found["ucx"]["modules"], **{"libibverbs.so.1": found["verbs"]})
    for name, error in sorted(libraries.items()):
        if error:
            yield "fabric: %s does not load: %s" % (name, error)


def adds(facts, fields=("pip", "compile")):
    """Whether the row adds something by pip, or compiles it."""
    row = json.loads(facts.get("system", {}).get("row") or "{}")
    return any(row.get(field) for field in fields)


def additions(facts):
    """What pip complains about (not the row's own NCCL), and libraries that an added file does not find."""
    if not adds(facts):
        return
    row, found = json.loads(facts["system"]["row"]), facts["additions"]["check"]
    own = re.compile(r".*but you have nvidia-nccl-cu\d+ %s\.?" % re.escape(row["nccl"]))
    if found["code"] not in (0, 1) or not found["lines"]:
        yield "additions: pip check gave no answer: %s" % found["said"]
    for line in found["lines"]:
        if line != CLEAN and not own.fullmatch(line):
            yield "additions: %s" % line
    for path, names in sorted(facts["additions"]["replaced"].items()):
        yield "additions: %s is in %s with other content" % (path, " and in ".join(names))
    yield from taken_over(facts["additions"])
    for path, names in sorted(facts["additions"]["libraries"].items()):
        for name in names:
            if name not in OF_DRIVER:
                yield "additions: %s needs %s" % (path, name)


def taken_over(found):
    """Names of the stack under which an addition is found, and what an addition starts by itself."""
    for one in found["distributions"].values():
        for module, imported in sorted(one.get("modules", {}).items()):
            if imported.get("replaces"):
                yield "additions: importing %s replaces %s" % (module, ", ".join(imported["replaces"]))
    for path, one in sorted(found["hidden"].items()):
        yield "additions: %s of %s is found before %s" % (path, one["of"], one["hides"])
    for path, name in sorted(found["startup"].items()):
        yield "additions: %s of %s is run by every Python" % (path, name)


def compiled(facts):
    """Extensions that do not load (errors says so), or lack code for one of the row's GPUs."""
    if not adds(facts, ("compile",)):
        return
    row = json.loads(facts["system"]["row"])
    for found in facts["compiled"].values():
        for path, extension in sorted(found["extensions"].items()):
            missing = sorted(set(row["gpu_arch"]) - set(extension["kernels"]["sm"]))
            if extension["gpu_code"] and missing:
                yield "compiled: %s has no code for %s" % (path, ", ".join(missing))


def built(facts, extensions):
    for extension in extensions:
        answers = facts.get("built-" + extension, {})
        for question in NEEDED:
            if not answers.get(question):
                yield "built-%s: %s is %r" % (extension, question, answers.get(question))


def attack(facts, place="attack"):
    """Each payload that was executed, and each request of a stranger that a started job let in."""
    for name, value in sorted(facts.items()):
        if isinstance(value, dict):
            yield from attack(value, "%s, %s" % (place, name))
        elif name == "executed" and value is not False:
            yield "%s: a pickle was executed" % place
    for name, status in sorted(facts.get("attacks", {}).items()):
        if isinstance(status, int) and status != REFUSED:
            yield "%s, %s: answered %d and not %d" % (place, name, status, REFUSED)


def wrong(facts, extensions):
    found = [one for name in sorted(facts) for one in errors(facts[name], name)]
    attacked = ("attack",) if extensions else ()
    added = ("additions",) if adds(facts) else ()
    own = ("compiled",) if adds(facts, ("compile",)) else ()
    wanted = ("files", "system", "link", "fabric", *attacked, *added, *own)
    missing = [name for name in wanted if name not in facts]
    if missing:
        return [*found, "no facts of %s" % ", ".join(missing)]
    attacks = attack(facts.get("attack", {}))
    judged = (static, fabric, additions, compiled)
    return found or [*(one for judge in judged for one in judge(facts)), *built(facts, extensions), *attacks]


def main(folder, extensions):
    problems = wrong(load(folder), extensions)
    for problem in problems:
        print("failed: " + problem)
    if not problems:
        print("passed: files and versions, links, and %s" % (" ".join(extensions) or "no extension"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
