"""Checks of the image's configuration, key by key, against what was rendered; of its history; of its scripts.

In a SIF the environment is what a program in it sees, and entry point and command are scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stackwright.core.checks.check import DOCKER, SIF, Facts, Finding, Rule, finding, listed, take
from stackwright.core.checks.tables.static import labels as found_labels
from stackwright.core.credentials import holds
from stackwright.core.model.labels import KEY, LAYER, PROVIDER, SHAPES, URL, VENDOR, VERSION
from stackwright.core.model.row import Stack, Tier
from stackwright.core.render import configuration as rendered
from stackwright.core.render.dockerfile import labels

PROXY = re.compile(r"(?i)(https?|ftp|all|no)_proxy|(pip|uv)_.*(index|host|proxy).*")
LIBRARIES = "LD_LIBRARY_PATH"

OF_ENGINE = re.compile(
    r"(APPTAINER|SINGULARITY)_[A-Z_]+|PROMPT_COMMAND|PS1|HOME|PWD|OLDPWD|SHLVL|_|TERM|USER|LOGNAME|HOSTNAME"
)
"""What Apptainer, and a shell, set in each container."""

OF_AN_EXAMPLE = re.compile(
    r"SCIF_APP(BIN|DATA|LABELS|LIB|META|ROOT|RUN)_(?P<app>\w+)=/scif/(apps|data)/(?P=app)(/\w[\w./]*)?"
)
"""What Apptainer sets for each %apprun of a definition file: where its files are, and nothing else."""

USER_BASE = "PYTHONUSERBASE"
"""What image/own-packages.pth sets in each process of Python."""

JUDGED = ("Env", "Entrypoint", "Cmd", "User", "WorkingDir", "Labels")
"""Keys of the configuration that a check of their own looks at."""

OF_TOOLS: Mapping[str, str] = {
    "ArgsEscaped": "BuildKit writes it into every image; it means something on Windows alone",
    "Hostname": "the classic builder notes its container's name, which no container of the image gets",
    "Image": "the classic builder notes the parent of the last step",
}
"""Keys that the builder sets, each with why it says nothing of the image."""

OF_SCHEMA = "org.label-schema."
"""Labels that Apptainer adds: when and by which release a SIF was made."""

SITE_IN_HISTORY = re.compile(
    r"(?i)(https?_proxy|pip_index_url|pip_extra_index_url|pip_trusted_host)(?==\S)|--(extra-)?index-url|--trusted-host"
    r"|\bdeb(-src)? (\[[^]]*\] )?(?=https?://)"
)
"""Build arguments and options that name a proxy, an index or a mirror. The match has nothing of the value."""

ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*?)(?=\s[A-Za-z_]\w*=|$)", re.DOTALL)


# -- ENV --------------------------------------------------------------------------------------------


def _pairs(stack: Stack, facts: Facts) -> dict[str, str]:
    if "image" in facts or "labels" not in facts:
        entries: Sequence[str] = take(facts, "image", "Config", "Env") or ()
        return {name: value for name, _, value in (entry.partition("=") for entry in entries)}
    seen: Mapping[str, str] = take(facts, "system", "environment")
    return {
        name: value
        for name, value in seen.items()
        if not OF_ENGINE.fullmatch(name)
        and not OF_AN_EXAMPLE.fullmatch(f"{name}={value}")
        and not (name == USER_BASE and value.endswith(rendered.user_base(stack)))
    }


def _elsewhere(name: str, value: str, docker: bool) -> bool:
    """Whether another check names this variable: of proxies, of the loader's path, of credentials."""
    return name == LIBRARIES or (docker and bool(PROXY.fullmatch(name))) or holds(f"{name}={value}")


def environment(stack: Stack, facts: Facts) -> Finding:
    """The values of unknown variables are not shown: they may be anything."""
    docker = "image" in facts
    wanted = rendered.environment(stack) if docker else rendered.environment_of_sif(stack)
    found = _pairs(stack, facts)
    problems = [f"{name} is not set" for name in wanted if name not in found]
    problems += [
        f"{name} is {found[name]!r}, the row's is {value!r}"
        for name, value in wanted.items()
        if name in found and found[name] != value
    ]
    problems += [
        f"the image sets {name}, and the row does not"
        for name, value in sorted(found.items())
        if name not in wanted and not _elsewhere(name, value, docker)
    ]
    return finding(problems, f"{len(wanted)} variables, and no other")


def proxy(stack: Stack, facts: Facts) -> Finding:
    """Of the image and not of the container: the engine can give a container the host's proxies."""
    names = [entry.partition("=")[0] for entry in take(facts, "image", "Config", "Env") or ()]
    return finding(f"the image sets {name}" for name in names if PROXY.fullmatch(name))


# -- what Docker starts -----------------------------------------------------------------------------


def entrypoint(stack: Stack, facts: Facts) -> Finding:
    config = take(facts, "image", "Config")
    words = tuple(config.get("Entrypoint") or ()), tuple(config.get("Cmd") or ())
    first = rendered.entrypoint(stack)
    wanted = (("entry point", first), ("command", rendered.COMMAND))
    problems = [
        f"the {what} is {' '.join(found) or 'empty'}, the row's is {' '.join(right)}"
        for (what, right), found in zip(wanted, words, strict=True)
        if found != right
    ]
    if stack.entrypoint and not take(facts, "system", "entrypoint"):
        problems.append(f"there is no program {stack.entrypoint[0]} to start")
    return finding(problems, " ".join((*first, *rendered.COMMAND)))


def user(stack: Stack, facts: Facts) -> Finding:
    who, said = take(facts, "system", "user"), take(facts, "image", "Config").get("User") or ""
    problems = ["the image's default user is root"] if who["uid"] == 0 else []
    if not who["name"]:
        problems.append(f"user {who['uid']} has no name, and ssh refuses a user without one")
    if not problems and said != rendered.user(stack):
        problems.append(f"the image's default user is {said!r}, the row's is {rendered.user(stack)}")
    return finding(problems, f"{who['name']} ({who['uid']}:{who['gid']})")


def folder(stack: Stack, facts: Facts) -> Finding:
    found = take(facts, "image", "Config").get("WorkingDir") or ""
    right = found == rendered.FOLDER
    return finding([] if right else [f"it begins in {found or '/'!r}, the row's is {rendered.FOLDER}"], found)


def others(stack: Stack, facts: Facts) -> Finding:
    """ONBUILD, VOLUME, EXPOSE, HEALTHCHECK, STOPSIGNAL, SHELL, and whatever key an engine has one day."""
    config, wanted = take(facts, "image", "Config"), rendered.settings(stack)
    names = [name for name in sorted({*config, *wanted}) if name not in JUDGED and name not in OF_TOOLS]
    problems = [
        f"{name} is {_shown(config.get(name))}, the row's is {_shown(wanted.get(name))}"
        for name in names
        if (config.get(name) or None) != (wanted.get(name) or None)
    ]
    return finding(problems, f"{len(names)} settings as rendered")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return listed(sorted(map(str, value))) or "not set"
    if isinstance(value, list):
        return repr([str(entry)[:60] for entry in value[:5]]) if value else "not set"
    return str(value) if value else "not set"


# -- labels and history -----------------------------------------------------------------------------


def other_labels(stack: Stack, facts: Facts) -> Finding:
    """Return settings that no other check compares, and those that no template renders."""
    wanted, found = dict(labels(stack)), found_labels(facts)
    added = {KEY, VERSION, VENDOR, URL, PROVIDER, LAYER, *rendered.OF_BASE[stack.provider]}
    problems = [
        f"the label {name} is {found[name]!r}, the row's is {value!r}"
        for name, value in wanted.items()
        if name in SHAPES and name in found and found[name] != value
    ]
    problems += [
        f"the label {name} is not the row's"
        for name, value in sorted(found.items())
        if name not in wanted and name not in added and not name.startswith(OF_SCHEMA) and not holds(value)
    ]
    return finding(problems, f"{len(found)} labels")


def history(stack: Stack, facts: Facts) -> Finding:
    """By the names alone: who reads the verdict is not to learn the site's addresses from it."""
    lines = [str(line) for line in take(facts, "history", "lines")]
    problems = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#(nop)")[2].strip() or line
        if words.startswith("ENV "):
            names = sorted(_unknown(stack, facts, words))
            problems += [f"instruction {number} sets {name}, and the row does not" for name in names]
        elif told := SITE_IN_HISTORY.search(line):
            problems.append(f"instruction {number} ({words.split()[0]}) contains {told[0].strip()}")
    return finding(problems, f"{len(lines)} instructions")


def _unknown(stack: Stack, facts: Facts, line: str) -> Iterator[str]:
    """Variables that were set once and are no more; those that the image sets are of another check."""
    if line in rendered.history(stack):
        return
    known, now = rendered.environment(stack), _pairs(stack, facts)
    for name, value in ASSIGNED.findall(line[len("ENV ") :]):
        if value in (known.get(name), now.get(name)) or _elsewhere(name, value, docker=False):
            continue
        if not (PROXY.fullmatch(name) and name in now):
            yield name


# -- what Apptainer starts --------------------------------------------------------------------------

OF_APPTAINER = tuple(
    re.compile(pattern)
    for pattern in (
        r"if \[ .* \]; then", r"for arg in \"\$@\"; do", r"else|fi|done", r'exec "\$@"', r'CMDLINE_ARGS=""',
        r'CMDLINE_ARGS="\$\{CMDLINE_ARGS\} \\"\$arg\\""',
        r'(SINGULARITY|APPTAINER)_OCI_RUN="(\$\{(OCI_ENTRYPOINT|OCI_CMD|CMDLINE_ARGS)\} ?)+"',
        r'eval "set \$\{(SINGULARITY|APPTAINER)_OCI_RUN\}"',
    )
)  # fmt: skip
"""Lines that Apptainer writes around the words of an image (pkg/build/types, oci runscript)."""

EXPORT = re.compile(r'export ([A-Za-z_]\w*)=("(\$\{\1:-"[^"$`\\]*"\}|[^"$`\\]*)"|[^"$`\\;&|]*(\$PATH)?)')


def scripts(stack: Stack, facts: Facts) -> Finding:
    """Of a converted image or of a definition file. Comments are left out."""
    found = {name: _code(take(facts, "scripts", name)) for name in ("runscript", "startscript")}
    run, start = found["runscript"], found["startscript"]
    problems = []
    if run != rendered.runscript(stack):
        problems += [f"the runscript has the line {line[:80]!r}" for line in _not_converted(stack, run)]
    if start not in ((), rendered.STARTSCRIPT):
        problems += [f"the startscript has the line {line[:80]!r}" for line in start]
    for path, text in sorted(take(facts, "scripts", "environment").items()):
        problems += [
            f"{path} has the line {line[:80]!r}" for line in _code(text) if not EXPORT.fullmatch(line)
        ]
    return finding(problems, f"{len(run)} lines of a runscript, {len(start)} of a startscript")


def _code(text: str) -> tuple[str, ...]:
    lines = (line.strip() for line in str(text).splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _not_converted(stack: Stack, lines: Sequence[str]) -> Iterator[str]:
    """Lines that are not of the script which Apptainer makes of the row's entry point and command."""
    first = rendered.entrypoint(stack)
    words = (*first, *rendered.COMMAND)
    right = {
        f"OCI_ENTRYPOINT='{_quoted(first)}'",
        f"OCI_CMD='{_quoted(rendered.COMMAND)}'",
        *(f"set -- '{word}' \"$@\"" for word in words),
    }
    yield from (
        line
        for line in lines
        if line not in right and not any(pattern.fullmatch(line) for pattern in OF_APPTAINER)
    )
    yield from (f"(missing) {line}" for line in sorted(right)[:2] if line not in lines)


def _quoted(words: Iterable[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


def credentials(stack: Stack, facts: Facts) -> Finding:
    """By kind and place: a verdict is published."""
    found, texts = take(facts, "credentials", "found"), take(facts, "credentials", "texts")
    places = dict.fromkeys(f"{credential['place']} holds a {credential['kind']}" for credential in found)
    return finding(places, f"{texts} texts")


S = Tier.STATIC
RULES = (
    Rule(id="static.environment", tier=S, judge=environment,
         why="A variable of an image changes what NVIDIA's runtime mounts, and how NCCL, MPI and what trains "
             "with them work."),
    Rule(id="static.proxy", tier=S, judge=proxy, worlds=DOCKER,
         why="A proxy or an index of the build site breaks the network of every user of the image."),
    Rule(id="static.credentials", tier=S, judge=credentials,
         why="A password in a setting, a label or the history is everyone's who can pull the image."),
    Rule(id="static.history", tier=S, judge=history, worlds=DOCKER,
         why="Site settings that a build gets can be read by every user in the image's history."),
    Rule(id="static.user", tier=S, judge=user, worlds=DOCKER,
         why="A container that is root by default can write to what it mounts as root."),
    Rule(id="static.entrypoint", tier=S, judge=entrypoint, worlds=DOCKER,
         why="The init works only as the first process of the container, and starts the command."),
    Rule(id="static.scripts", tier=S, judge=scripts, worlds=SIF,
         why="What a SIF runs at its start is the row's init, and nothing before it."),
    Rule(id="static.workdir", tier=S, judge=folder, worlds=DOCKER,
         why="A container begins in the folder that its user may write."),
    Rule(id="static.settings", tier=S, judge=others, worlds=DOCKER,
         why="ONBUILD, a volume, a port or a health check that is not declared surprises its users."),
    Rule(id="static.labels", tier=S, judge=other_labels, needs=("static.oci-labels",),
         why="The labels are those that were rendered, and no others."),
)  # fmt: skip
