"""Makes the good image and its faulty variants, and probes them all: each is built in one bake."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

import horovod_source as source
from patching import apply, hunks

from faults.packages import ENTRY_POINTS, PYTHON_PACKAGES
from faults.variants import Variant
from stackwright.core.checks.stranger import STRANGER
from stackwright.core.facts import distributions
from stackwright.core.facts.patches import load_series
from stackwright.core.model.added.distributions import Added, Compiled
from stackwright.core.model.added.image import Variable
from stackwright.core.model.added.tools import Tool
from stackwright.core.model.labels import KEY, PROVIDER, VERSION
from stackwright.core.model.row import (
    Base,
    Flavour,
    Lock,
    Mpi,
    Package,
    ProviderName,
    Stack,
    Tier,
    Verdict,
)
from stackwright.core.model.site import Site
from stackwright.core.model.target import AMD64
from stackwright.core.render.dockerfile import declared, environment
from stackwright.core.render.dockerfile import labels as rendered_labels
from stackwright.core.render.own_files import minor, own_files
from stackwright.core.render.sources import Sources
from stackwright.core.versions import upstream
from stackwright.engines import docker as engine
from stackwright.engines.bases.debian import KEEP_NOTHING_OF_THE_SITE
from stackwright.engines.docker import Docker, Mount
from stackwright.host.runner import Completed, Runner
from stackwright.host.site.settings import apt_mirror
from stackwright.probe import site_leaks
from stackwright.probe.outside.documents import not_read
from stackwright.probe.run import RunFiles, Subject, Witness, probe_image, run_image_tests

HERE = Path(__file__).parent
PROBES = HERE.parents[3] / "probes"
SUITE = "trixie"
PACKAGES = (
    "ca-certificates", "g++", "gcc", "ibverbs-providers", "libibverbs1", "libpmix2t64", "libpython3-dev",
    "libucx0", "openssh-client", "openssh-server", "openssl", "python3", "python3-venv", "tini", "ucx-utils",
)  # fmt: skip
HOOKS = (*KEEP_NOTHING_OF_THE_SITE, "rm -f $1/etc/ssh/ssh_host_* $1/var/cache/apt/*.bin")
ADDED = ("addition", "tensorboard")
"""What the row adds by pip, and for its tool."""
COMPILED, SOURCE = ("native",), "c0" * 32
"""What it compiles from source, and the hash of that."""
HOROVOD = ("0.28.1", ("horovod/__init__.py",))
NEEDED = ("psutil", "cloudpickle", "yaml")
"""By Horovod's servers, which are real here. psutil's library is for every Python; yaml needs none."""
NOT_RUN = {
    Tier.COLLECTIVE: "the image has stand-ins for the frameworks",
    Tier.GPU: "the image has stand-ins for the frameworks",
}
SITE = Site(mirror="http://mirror.planted.example/debian", ca=None, pip=(), proxies=())
PROBED_ANEW = (("additions", "added."), ("compiled", "compiled."))
"""Probes that are run where a fault is theirs, by the heads of their checks."""
AT_ONCE = 4
BAKED_AT_ONCE = 24


def base_image(docker: Docker, runner: Runner, folder: Path) -> str:
    """Debian with the programs that a good image has, kept in the engine by what is asked for."""
    asked = hashlib.sha256(json.dumps([SUITE, PACKAGES, HOOKS]).encode()).hexdigest()[:12]
    name = f"stackwright/faults-base:{asked}"
    if not engine.image_exists(docker, name):
        mirror = apt_mirror(runner)
        assert mirror, "the host's apt sources name no mirror"
        tar = folder / "base.tar"
        hooks = [f"--customize-hook={hook}" for hook in HOOKS]
        options = ["--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", *hooks]
        _must(runner(["mmdebstrap", *options, SUITE, tar, mirror], timeout=600))
        _must(runner(docker.command("image", "import", tar, name)))
        tar.unlink()
    return name


def installed_in(docker: Docker, base: str) -> tuple[dict[str, str], str]:
    """Return the versions of all packages, and the distribution's release."""
    script = "dpkg-query -W -f '${Package} ${Version}\\n'; cat /etc/debian_version"
    done = engine.run(docker, engine.Job(image=base, argv=("sh", "-c", script), network=False))
    _must(done)
    *rows, release = done.stdout.strip().splitlines()
    return dict(row.split(" ") for row in rows), release


def stack_of(docker: Docker, base: str) -> Stack:
    """The row that the good image is. Versions of the system are dpkg's: the probe asks the programs."""
    installed, release = installed_in(docker, base)
    gcc = next(name for name in installed if re.fullmatch(r"gcc-\d+", name))
    python = next(name for name in installed if re.fullmatch(r"python3\.\d+", name))
    kept = tuple(Package(name=name, version=installed[name]) for name in (gcc, "libc6", python))
    state = Base(os="debian-13", suite=SUITE, release=release, date="", digest="", packages=kept)
    locked = tuple(Package(name=name, version=version) for name, (version, _) in PYTHON_PACKAGES.items())
    added, compiled = (tuple(pin for pin in locked if pin.name in names) for names in (ADDED, COMPILED))
    return Stack(
        id="faults",
        provider=ProviderName.DEBIAN,
        os="debian-13",
        base=state,
        python=upstream(installed[python]),
        cuda="12.4",
        cuda_runtime="12.4.127",
        cudnn="9.1.0.70",
        nccl="2.21.5",
        nccl_code=22105,
        gcc=upstream(installed[gcc]),
        mpi=Mpi.of("openmpi", "5.0.7"),
        communication=(("horovod", HOROVOD[0]), ("torch_distributed", "2.6.0"), ("mpi4py", "4.1.2"),
                       ("deepspeed", "0.19.8"), ("jax", "0.12.0.1")),
        frameworks=(("torch", "2.6.0"),),
        gpu_arch=("7.0", "8.0", "9.0"),
        flavour=Flavour.RUNTIME,
        test_on_gpu=False,
        patches=("cxx17.patch",),
        lock=Lock(
            row="faults", request="", base=state, packages=locked, added=added, text="", sha256="0" * 64,
            compiled=compiled, sources=tuple((package.name, SOURCE) for package in compiled),
        ),
        pip=tuple(Added(name=package.name, version=package.version) for package in added),
        compiled=tuple(map(of_source, compiled)),
        apt=(Package(name="openssl", version=installed["openssl"]),),
        env=(Variable(name="OURS", value="a b"),),
        ports=("8888/tcp",), entrypoint=("/opt/ours/start",),
        tools=(Tool(name="tensorboard", version="2.21.0", port=6006),),
    )  # fmt: skip


def of_source(package: Package) -> Compiled:
    return Compiled(name=package.name, version=package.version, sha256=SOURCE, needs=("torch",))


def write_servers(folder: Path, runner: Runner) -> None:
    """Horovod's own servers: with the patches of every row for the image, as released for a fault."""
    series = load_series(source.ROOT / "patches" / "horovod")
    patches = series.select({})
    whole = source.unpack(source.archive(runner, series), folder / "horovod-source")
    touched = {hunk.path for patch in patches for hunk in hunks(patch.content)}
    patched = source.without_extensions(whole, folder / "horovod-patched", *touched)
    apply(runner, source.patch_program(runner, folder), patched, source.contents(patches))
    for part in ("common", "runner"):
        shutil.copytree(patched / "horovod" / part, folder / "tree" / "horovod" / part)
    shutil.copytree(whole / "horovod" / "runner", folder / "released")
    shutil.rmtree(whole.parent)
    shutil.rmtree(patched)
    for name in NEEDED:
        found = importlib.util.find_spec(name)
        assert found and found.origin
        place = Path(found.origin).parent
        shutil.copytree(place, folder / "tree" / place.name, ignore=shutil.ignore_patterns("__pycache__"))


def write_context(folder: Path, stack: Stack) -> None:
    for name in ("Dockerfile", "mpirun", "ompi_info", "horovodrun", "record", "fake", "tree"):
        source = HERE / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)
    for name, (version, files) in {**PYTHON_PACKAGES, "horovod": HOROVOD}.items():
        info = folder / "tree" / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        if name in ENTRY_POINTS:
            (info / "entry_points.txt").write_text(ENTRY_POINTS[name])
    note = folder / "tree" / "native-1.0.dist-info" / "stackwright.json"
    note.write_text(json.dumps(compiled_note(stack)))
    write_own(folder, stack)
    flags = list(AMD64.cpu_flags)
    noted = {"nvcc": stack.cuda, "gcc": stack.gcc, "patches": list(stack.patches), "cpu_flags": flags}
    (folder / "tree" / "horovod" / "build_info.json").write_text(json.dumps(noted))


def compiled_note(stack: Stack) -> dict[str, object]:
    """Return what scripts/build-distribution.sh writes into a wheel."""
    return {
        "source": {"file": "native-1.0.tar.gz", "sha256": SOURCE}, "gcc": stack.gcc, "nvcc": stack.cuda,
        "cuda_sources": 1, "mpi": stack.mpi.version, "python": stack.python, "environment": {},
        "cpu_flags": list(AMD64.cpu_flags),
        "packages": {package.name: package.version for package in stack.lock.packages},
    }  # fmt: skip


def write_own(folder: Path, stack: Stack) -> dict[str, bytes]:
    """What our last step puts into every image, in the folder ``own``, and that step; return the files."""
    root = HERE.parents[3]
    sources = Sources.load(root, load_series(root / "patches" / "horovod"))
    files = own_files(stack, dict(sources.image))
    for name, content in files.items():
        target = folder / "own" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (folder / "own" / "row.json").write_text(json.dumps(declared(stack)))
    step = environment(sources).get_template("steps/row.j2")
    given = {"os": distributions.known(stack.os), "python_minor": minor(stack), "stack": stack}
    install = vars(step.make_module(given))["install"]
    (folder / "own" / "install.sh").write_text(install("/tmp/own"))
    return files


def labels(stack: Stack) -> dict[str, str]:
    added = {PROVIDER: stack.provider, KEY: "5e" * 32, VERSION: "5e" * 6}
    return added | dict(rendered_labels(stack))


def reference(name: str) -> str:
    """A name of this run's own: others may run on the same engine."""
    return f"stackwright/faults-{os.getpid()}:{name}"


def bake_file(folder: Path, stack: Stack, base: str, variants: Sequence[Variant]) -> str:
    """The good image is a target of its own, and each variant is built FROM that target."""
    targets: dict[str, dict[str, object]] = {"good": {"args": {"BASE": base}, "labels": labels(stack)}}
    for variant in variants:
        lines = "\n".join(("FROM good", *variant.instructions, ""))
        targets[variant.name] = {"contexts": {"good": "target:good"}, "dockerfile-inline": lines}
    for name, target in targets.items():
        target |= {
            "context": str(folder),
            "tags": [reference(name)],
            "network": "none",
            "output": ["type=docker"],
        }
    return json.dumps({"group": {"default": {"targets": list(targets)}}, "target": targets})


def bake(docker: Docker, runner: Runner, folder: Path, content: str) -> None:
    """Build all targets of the file, some at a time.

    BuildKit gives up on a target whose job did not begin within seconds ("no such job"), as happens with a
    hundred of them on a busy host.
    """
    plan = folder / "bake.json"
    plan.write_text(content)
    argv = docker.command("buildx", "bake", "--progress=plain", "--provenance=false", "--file", plan)
    targets = list(json.loads(content)["target"])
    for start in range(0, len(targets), BAKED_AT_ONCE):
        names = targets[start : start + BAKED_AT_ONCE]
        _must(runner([*argv, *names], cwd=folder, timeout=900, env={"BUILDX_BAKE_ENTITLEMENTS_FS": "0"}))


@dataclass(kw_only=True)
class OneContainer:
    """Runs all probes in one container that is up: starting one is most of the time that a probe takes.

    ``known`` are facts of the same servers or additions in another image: a hundred attacks would find one
    thing.
    """

    docker: Docker
    runner: Runner
    image: str
    known: Sequence[Path]
    opened: contextlib.ExitStack
    up: str = ""
    mounted: Sequence[Mount] = ()
    starting: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self, argv: Sequence[str], *, mounts: Sequence[Mount], timeout: float, user: str | None,
        read_only: bool = False,
    ) -> Completed:  # fmt: skip
        if read_only:
            return _sealed(self.docker, self.image, argv, mounts, self.known)
        self._start(mounts)
        who = ["--user", user] if user is not None else []
        for facts in self.known:
            if any(_asks_for(word, facts) for word in argv):
                shutil.copy(facts, mounts[-1].source)
            argv = [word for word in argv if not _asks_for(word, facts)]
        if str(argv[-1]) == mounts[-1].target:  # all that was asked for is known
            return Completed(argv=tuple(argv), returncode=0, stdout="", stderr="")
        for first, again in zip(self.mounted, mounts, strict=True):  # the same folders under other names
            argv = [word.replace(str(again.target), str(first.target)) for word in argv]
        return self.runner(self.docker.command("exec", *who, self.up, *argv), timeout=timeout)

    def _start(self, mounts: Sequence[Mount]) -> None:
        """Past the entry point, so that a broken one is found by its check and hides no other."""
        with self.starting:
            if not self.up:
                self.mounted = tuple(mounts)
                job = engine.Job(
                    image=self.image,
                    entrypoint=("sleep",),
                    argv=("600",),
                    mounts=tuple(mounts),
                    network=False,
                )
                self.up = self.opened.enter_context(engine.started(self.docker, job))


def probe(
    docker: Docker, runner: Runner, stack: Stack, image: str, folder: Path, known: Sequence[Path]
) -> Verdict:
    with contextlib.ExitStack() as opened:
        execute = OneContainer(docker=docker, runner=runner, image=image, known=known, opened=opened)
        subject = Subject(
            world="docker", execute=execute, image=engine.inspect(docker, image),
            history=[layer.created_by for layer in engine.layers(docker, image)],
            outside=lambda: replace(
                not_read("the stand-ins are of no wheel"), layers=site_leaks.facts(docker, image, SITE)
            ),
        )  # fmt: skip
        return probe_image(stack, subject, probes=PROBES, folder=folder, not_run=NOT_RUN).verdict


def _sealed(
    docker: Docker, image: str, argv: Sequence[str], mounts: Sequence[Mount], known: Sequence[Path]
) -> Completed:
    """In a container of its own, whose root is read-only; or what another image gave."""
    for facts in known:
        if facts.stem == "sealed":
            known_ones = json.loads(facts.read_text())
            known_ones |= {f"tool-{name}": found for name, found in known_ones.pop("tool").items()}
            for name, document in known_ones.items():
                (mounts[-1].source / f"{name}.json").write_text(json.dumps(document))
            return Completed(argv=tuple(argv), returncode=0, stdout="", stderr="")
    job = engine.Job(
        image=image, entrypoint=tuple(argv[:1]), argv=tuple(argv[1:]), mounts=tuple(mounts), network=False,
        user=STRANGER, read_only=True,
    )  # fmt: skip
    return engine.run(docker, job, timeout=300)


def _asks_for(word: str, facts: Path) -> bool:
    """Whether a word for probes/run.py asks for the facts of that file."""
    return word.partition("=")[0] == facts.stem


def probe_all(
    docker: Docker, runner: Runner, stack: Stack, variants: Sequence[Variant], folder: Path
) -> Mapping[str, Verdict]:
    def of(variant: Variant, head: str) -> bool:
        return any(check.startswith(head) for check in variant.red)

    def probed(variant: Variant) -> Verdict:
        strange = any("any-user" in check or check.startswith("tool.") for check in variant.red)
        asked = {"attack": variant.servers, **{name: of(variant, head) for name, head in PROBED_ANEW}}
        asked |= {"stranger": strange, "sealed": strange}
        same = [folder / "good" / f"{name}.json" for name, anew in asked.items() if not anew]
        return probe(docker, runner, stack, reference(variant.name), folder / variant.name, same)

    good = probe(docker, runner, stack, reference("good"), folder / "good", ())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = dict(zip((variant.name for variant in variants), pool.map(probed, variants), strict=True))
    return {"good": good, **verdicts}


def witness(docker: Docker, runner: Runner, stack: Stack, name: str, facts: Path, junit: Path) -> set[str]:
    """The tests of tests/images/test_witness.py that fail for an image; the probes' facts are not theirs."""
    job = engine.Job(image=reference(name), entrypoint=("sleep",), argv=("600",), network=False)
    with engine.started(docker, job) as container:
        witness = Witness(words=("--container", container), environment={"DOCKER_HOST": docker.host})
        tests = HERE.parents[2] / "images" / "test_witness.py"
        run_image_tests(
            runner, stack, RunFiles(tests=tests, facts=facts / name, junit=junit), world="docker",
            not_run=NOT_RUN, witness=witness,
        )  # fmt: skip
    cases = ElementTree.parse(junit).iter("testcase")
    failed = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return {case.get("name", "") for case in failed if "test_witness" in case.get("classname", "")}


def remove_all(docker: Docker, runner: Runner, names: Sequence[str]) -> None:
    runner(docker.command("image", "rm", "--force", *(reference(name) for name in names)))


def _must(done: Completed) -> None:
    assert done.ok, f"{' '.join(done.argv[:4])} …: {done.stderr[-4000:]}{done.stdout[-1000:]}"
