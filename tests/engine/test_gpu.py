"""The three ways to a GPU, each on a real dockerd that has this way and no other, and none on a bare one.

No GPU is needed: a CDI device sets a variable and mounts a file, a stand-in hook and a stand-in runtime
leave a mark in the container. The mark is what the tests look for from inside.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from own_engine import TINY, OwnEngine, own_engine
from rows import ROOT, SOURCES, stack

from bench.gpu import images
from stackwright.build.gpu_test import try_on_gpu
from stackwright.core.errors import BuildError, EngineError
from stackwright.core.render.dockerfile import reference
from stackwright.engines import docker as engine
from stackwright.engines.build_gpu import BuildGpu, look_for_build_gpu
from stackwright.engines.docker import Job
from stackwright.engines.gpu import GpuAccess, NoGpu, Way, look_for_gpu
from stackwright.host.project import Project, cells, plan
from stackwright.host.runner import Runner

pytestmark = pytest.mark.engine

CDI_SPEC = """\
cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices:
  - name: all
    containerEdits:
      env: ["GPU_MARK=cdi"]
      deviceNodes: [{{path: /dev/nvidia-stand-in, hostPath: /dev/null}}]
      mounts: [{{hostPath: {file}, containerPath: /etc/gpu-mark, options: [bind, ro]}}]
"""

# dockerd looks for this name on its PATH when it starts; the hook gets the container's state on stdin.
HOOK = """\
#!/bin/sh
bundle=$(sed -n 's/.*"bundle": *"\\([^"]*\\)".*/\\1/p')
root=$(sed -n 's/.*"root":{"path":"\\([^"]*\\)".*/\\1/p' "$bundle/config.json")
echo "$NAME$*" > "$root/etc/gpu-mark"
"""

RUNTIME = """\
#!/bin/sh
previous=
for word in "$@"; do
    if [ "$previous" = --bundle ]; then
        sed -i 's/"env":\\[/"env":["GPU_MARK=runtime",/' "$word/config.json"
    fi
    previous=$word
done
exec runc "$@"
"""

MARKS = ("sh", "-c", "echo mark=$GPU_MARK visible=$NVIDIA_VISIBLE_DEVICES; cat /etc/gpu-mark; ls /dev")


def _started(
    factory: pytest.TempPathFactory, runner: Runner, tiny_tar: Path, config: Mapping[str, Any],
    programs: Path | None = None,
) -> Generator[OwnEngine]:  # fmt: skip
    with own_engine(factory.mktemp("e"), config, runner, programs=programs) as own:
        done = runner(own.docker.command("import", "--change", "ENV PATH=/bin", tiny_tar, TINY))
        assert done.ok, done.stderr
        yield own


@pytest.fixture(scope="module")
def bare(runner: Runner, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnEngine]:
    """An engine with no way to a GPU. A test that declares one takes it away again."""
    yield from _started(tmp_path_factory, runner, tiny_tar, {})


@pytest.fixture(scope="module")
def hooked(
    runner: Runner, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[OwnEngine, Path]]:
    """An engine that found a hook when it started, and the hook, which it reads whenever it runs one."""
    hook = _program(tmp_path_factory.mktemp("bin"), "nvidia-container-runtime-hook", "")
    for own in _started(tmp_path_factory, runner, tiny_tar, {}, hook.parent):
        yield own, hook


@pytest.fixture(scope="module")
def by_default(
    runner: Runner, tiny_tar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[OwnEngine, Path]]:
    """An engine whose default runtime is a program, and the program. Builds may ask for devices."""
    program = _program(tmp_path_factory.mktemp("bin"), "stand-in", RUNTIME)
    config = {
        "runtimes": {"nvidia": {"path": str(program)}},
        "default-runtime": "nvidia",
        "builder": {"entitlements": {"device": True}},
    }
    for own in _started(tmp_path_factory, runner, tiny_tar, config):
        yield own, program


def _program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


@contextlib.contextmanager
def _declared_cdi(own: OwnEngine) -> Iterator[None]:
    mark = own.folder / "mark"
    mark.write_text("mounted by CDI\n")
    # The engine watches the folder; it sees a file renamed in there, and not one moved in from elsewhere.
    part = own.folder / "cdi" / "part"
    part.write_text(CDI_SPEC.format(file=mark))
    spec = part.rename(own.folder / "cdi" / "nvidia.yaml")
    yield
    spec.unlink()


def _find(own: OwnEngine) -> GpuAccess | NoGpu:
    with engine.connected(own.docker) as client:
        return look_for_gpu(client)


def _access(own: OwnEngine) -> GpuAccess:
    found = _find(own)
    assert isinstance(found, GpuAccess), found
    return found


def _both_ways_to_run(own: OwnEngine, access: GpuAccess, runner: Runner) -> tuple[str, str]:
    """What a container sees that the SDK started, and one that a person started with the CLI."""
    by_sdk = engine.run(own.docker, Job(image=TINY, argv=MARKS, network=False, gpu=access))
    options = ("--rm", "--network=none", *access.run_arguments())
    by_cli = runner(own.docker.command("run", *options, TINY, *MARKS))
    assert by_sdk.ok, by_sdk.stderr
    assert by_cli.ok, by_cli.stderr
    return by_sdk.stdout, by_cli.stdout


def test_gpus(hooked: tuple[OwnEngine, Path], runner: Runner) -> None:
    own, hook = hooked
    hook.write_text(HOOK.replace("$NAME", "the hook: "))
    access = _access(own)
    assert access.way is Way.GPUS
    for seen in _both_ways_to_run(own, access, runner):
        assert "the hook: prestart" in seen
        assert "visible=all" in seen
    without = engine.run(own.docker, Job(image=TINY, argv=MARKS, network=False))
    assert "the hook" not in without.stdout


def test_a_hook_that_fails_is_no_gpu(hooked: tuple[OwnEngine, Path]) -> None:
    """As NVIDIA's does when the driver is not loaded: the engine has the way, and there is no GPU."""
    own, hook = hooked
    hook.write_text("#!/bin/sh\necho 'nvml error: driver not loaded' >&2\nexit 1\n")
    found = _find(own)
    assert isinstance(found, NoGpu)
    assert "driver not loaded" in found.reason


def test_runtime(
    runner: Runner, tiny_tar: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = _program(tmp_path / "bin", "stand-in", RUNTIME)
    with contextlib.closing(
        _started(tmp_path_factory, runner, tiny_tar, {"runtimes": {"nvidia": {"path": str(program)}}})
    ) as engines:
        _by_runtime(next(engines), runner)


def _by_runtime(own: OwnEngine, runner: Runner) -> None:
    access = _access(own)
    assert access.way is Way.RUNTIME
    for seen in _both_ways_to_run(own, access, runner):
        assert "mark=runtime" in seen
        assert "visible=all" in seen
    without = engine.run(own.docker, Job(image=TINY, argv=MARKS, network=False))
    assert "mark=runtime" not in without.stdout


def test_none_of_the_three_says_why(bare: OwnEngine, runner: Runner) -> None:
    found = _find(bare)
    assert isinstance(found, NoGpu)
    assert "no device nvidia.com/gpu" in found.reason or "unresolvable" in found.reason
    assert "could not select device driver" in found.reason
    assert "no runtime named nvidia" in found.reason
    build = _find_for_build(bare, runner)
    assert isinstance(build, NoGpu)
    assert "default runtime is runc" in build.reason


def _find_for_build(own: OwnEngine, runner: Runner) -> BuildGpu | NoGpu:
    with engine.connected(own.docker) as client:
        return look_for_build_gpu(runner, own.docker, client)


def _stand_in_image(own: OwnEngine, runner: Runner, folder: Path) -> str:
    """An image whose "Python" passes the test only where the runtime left its mark."""
    folder.mkdir()
    _program(folder, "python", '#!/bin/sh\necho probing $4; test "$GPU_MARK" = runtime\n')
    (folder / "Dockerfile").write_text(f"FROM {TINY}\nCOPY python /opt/stack/bin/python\n")
    done = runner(own.docker.command("buildx", "build", "--network=none", "--tag", "row:1", folder))
    assert done.ok, done.stderr
    return "row:1"


def test_a_row_is_tested_on_the_gpu_while_it_is_built(
    by_default: tuple[OwnEngine, Path], runner: Runner, tmp_path: Path
) -> None:
    own, program = by_default
    program.write_text(RUNTIME)
    image = _stand_in_image(own, runner, tmp_path / "image")
    how = try_on_gpu(stack(), image, project=ROOT, sources=SOURCES, docker=own.docker, runner=runner)
    assert how.startswith("runtime: ")


@pytest.mark.long
def test_a_test_that_fails_on_the_gpu_fails_the_build(
    by_default: tuple[OwnEngine, Path], runner: Runner, tmp_path: Path
) -> None:
    own, program = by_default
    program.write_text(RUNTIME.replace("GPU_MARK=runtime", "GPU_MARK=broken"))
    image = _stand_in_image(own, runner, tmp_path / "image")
    with pytest.raises(BuildError, match="the test on the GPU failed") as failure:
        try_on_gpu(stack(), image, project=ROOT, sources=SOURCES, docker=own.docker, runner=runner)
    assert "probing" in str(failure.value)


def test_a_row_that_asks_for_a_gpu_is_not_passed_without_one(bare: OwnEngine, runner: Runner) -> None:
    with pytest.raises(EngineError, match="no build gets one here"):
        try_on_gpu(stack(), TINY, project=ROOT, sources=SOURCES, docker=bare.docker, runner=runner)


# -- with a CDI device, which an engine may still know for a moment after it is taken away ------------


def test_cdi(bare: OwnEngine, runner: Runner) -> None:
    before = _find(bare)
    assert isinstance(before, NoGpu)
    assert "nvidia.com/gpu" in before.reason

    with _declared_cdi(bare):
        access = _access(bare)
        assert access.way is Way.CDI
        for seen in _both_ways_to_run(bare, access, runner):
            assert "mark=cdi" in seen
            assert "mounted by CDI" in seen
            assert "nvidia-stand-in" in seen
        without = engine.run(bare.docker, Job(image=TINY, argv=MARKS, network=False))
    assert "mark=cdi" not in without.stdout
    assert "nvidia-stand-in" not in without.stdout


@pytest.mark.long
def test_make_gpu_tests_the_images_that_are_there(
    bare: OwnEngine, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that only has the name of a row's is found by it, and does not pass."""
    for name, value in bare.environ.items():
        monkeypatch.setenv(name, value)
    project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=tmp_path)
    (row,) = plan(project, cells(project, ("cuda12-torch",))).rows
    image = reference(row.recipe)
    with _declared_cdi(bare):
        found, why = images.there(bare.environ)
        assert not found
        assert "has the image of no row" in why
        assert runner(bare.docker.command("tag", TINY, image)).ok
        try:
            assert images.there(bare.environ) == ([("matrix.yaml", "cuda12-torch", image)], "")
            assert images.prove(tmp_path / "gpu", Path(sys.executable))
        finally:
            engine.remove(bare.docker, image)
    answer = json.loads((tmp_path / "gpu" / "images.json").read_text())["cuda12-torch"]
    assert answer["code"] != 0
    assert answer["checks"] == []


@pytest.mark.long
def test_build_reaches_the_device(by_default: tuple[OwnEngine, Path], runner: Runner, tmp_path: Path) -> None:
    """By whichever way this engine has, a RUN step must see the mark; a build that asks for nothing must not.

    BuildKit runs its steps with runc itself, so only the classic builder can see the runtime's mark.
    """
    own, program = by_default
    program.write_text(RUNTIME)
    with _declared_cdi(own):
        _built_with_and_without(own, runner, tmp_path)


def _built_with_and_without(own: OwnEngine, runner: Runner, tmp_path: Path) -> None:
    gpu = _find_for_build(own, runner)
    assert isinstance(gpu, BuildGpu), gpu

    step = 'sh -c "test \\"$GPU_MARK\\" = ' + ("cdi" if gpu.way is Way.CDI else "runtime") + '"'
    asked, plain = tmp_path / "asked", tmp_path / "plain"
    for folder, flag in ((asked, gpu.run_flag), (plain, "")):
        folder.mkdir()
        (folder / "Dockerfile").write_text(f"FROM {TINY}\nRUN {flag}{step}\n")
    options = ("--no-cache", "--network=none", "--tag", "with-gpu")
    done = runner(gpu.command(own.docker, *options, asked), env=gpu.env)
    assert done.ok, done.stdout + done.stderr
    assert engine.image_exists(own.docker, "with-gpu")
    plainly = runner(own.docker.command("buildx", "build", "--no-cache", "--network=none", plain))
    assert not plainly.ok
    assert "did not complete successfully: exit code: 1" in plainly.stderr
