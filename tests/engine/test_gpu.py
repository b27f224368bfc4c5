"""The three ways to a GPU, each on a real dockerd that has this way and no other, and none on a bare one.

No GPU is needed: a CDI device sets a variable and mounts a file, a stand-in hook and a stand-in runtime
leave a mark in the container. The mark is what the tests look for from inside.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from own_engine import TINY, OwnEngine, StartEngine
from rows import ROOT, SOURCES, stack

from stackwright.engines import docker as engine
from stackwright.engines.docker import Job
from stackwright.engines.gpu import BuildGpu, GpuAccess, NoGpu, Way, look_for_build_gpu, look_for_gpu
from stackwright.errors import BuildError, EngineError
from stackwright.gpubuild import try_on_gpu
from stackwright.runner import Runner

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


def _program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def _declare_cdi(own: OwnEngine) -> None:
    mark = own.folder / "mark"
    mark.write_text("mounted by CDI\n")
    # The engine watches the folder; it sees a file renamed in there, and not one moved in from elsewhere.
    part = own.folder / "cdi" / "part"
    part.write_text(CDI_SPEC.format(file=mark))
    part.rename(own.folder / "cdi" / "nvidia.yaml")


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


def test_cdi(start_engine: StartEngine, runner: Runner) -> None:
    own = start_engine()
    before = _find(own)
    assert isinstance(before, NoGpu)
    assert "nvidia.com/gpu" in before.reason

    _declare_cdi(own)
    access = _access(own)
    assert access.way is Way.CDI
    for seen in _both_ways_to_run(own, access, runner):
        assert "mark=cdi" in seen
        assert "mounted by CDI" in seen
        assert "nvidia-stand-in" in seen
    without = engine.run(own.docker, Job(image=TINY, argv=MARKS, network=False))
    assert "mark=cdi" not in without.stdout
    assert "nvidia-stand-in" not in without.stdout


def test_gpus(start_engine: StartEngine, runner: Runner, tmp_path: Path) -> None:
    _program(tmp_path / "bin", "nvidia-container-runtime-hook", HOOK.replace("$NAME", "the hook: "))
    own = start_engine(programs=tmp_path / "bin")
    access = _access(own)
    assert access.way is Way.GPUS
    for seen in _both_ways_to_run(own, access, runner):
        assert "the hook: prestart" in seen
        assert "visible=all" in seen
    without = engine.run(own.docker, Job(image=TINY, argv=MARKS, network=False))
    assert "the hook" not in without.stdout


def test_a_hook_that_fails_is_no_gpu(start_engine: StartEngine, tmp_path: Path) -> None:
    """As NVIDIA's does when the driver is not loaded: the engine has the way, and there is no GPU."""
    text = "#!/bin/sh\necho 'nvml error: driver not loaded' >&2\nexit 1\n"
    _program(tmp_path / "bin", "nvidia-container-runtime-hook", text)
    found = _find(start_engine(programs=tmp_path / "bin"))
    assert isinstance(found, NoGpu)
    assert "driver not loaded" in found.reason


def test_runtime(start_engine: StartEngine, runner: Runner, tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", "stand-in", RUNTIME)
    own = start_engine(config={"runtimes": {"nvidia": {"path": str(program)}}})
    access = _access(own)
    assert access.way is Way.RUNTIME
    for seen in _both_ways_to_run(own, access, runner):
        assert "mark=runtime" in seen
        assert "visible=all" in seen
    without = engine.run(own.docker, Job(image=TINY, argv=MARKS, network=False))
    assert "mark=runtime" not in without.stdout


def test_none_of_the_three_says_why(start_engine: StartEngine, runner: Runner) -> None:
    own = start_engine()
    found = _find(own)
    assert isinstance(found, NoGpu)
    assert "no device nvidia.com/gpu" in found.reason or "unresolvable" in found.reason
    assert "could not select device driver" in found.reason
    assert "no runtime named nvidia" in found.reason
    build = _find_for_build(own, runner)
    assert isinstance(build, NoGpu)
    assert "default runtime is runc" in build.reason


def _find_for_build(own: OwnEngine, runner: Runner) -> BuildGpu | NoGpu:
    with engine.connected(own.docker) as client:
        return look_for_build_gpu(runner, own.docker, client)


def test_build_reaches_the_device(start_engine: StartEngine, runner: Runner, tmp_path: Path) -> None:
    """By whichever way this engine has, a RUN step must see the mark; a build that asks for nothing must not.

    BuildKit runs its steps with runc itself, so only the classic builder can see the runtime's mark.
    """
    program = _program(tmp_path / "bin", "stand-in", RUNTIME)
    own = start_engine(
        config={
            "runtimes": {"nvidia": {"path": str(program)}},
            "default-runtime": "nvidia",
            "builder": {"entitlements": {"device": True}},
        }
    )
    _declare_cdi(own)
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


def _stand_in_image(own: OwnEngine, runner: Runner, folder: Path) -> str:
    """An image whose "Python" passes the test only where the runtime left its mark."""
    folder.mkdir()
    _program(folder, "python", '#!/bin/sh\necho probing $4; test "$GPU_MARK" = runtime\n')
    (folder / "Dockerfile").write_text(f"FROM {TINY}\nCOPY python /opt/stack/bin/python\n")
    done = runner(own.docker.command("buildx", "build", "--network=none", "--tag", "row:1", folder))
    assert done.ok, done.stderr
    return "row:1"


def test_a_row_is_tested_on_the_gpu_while_it_is_built(
    start_engine: StartEngine, runner: Runner, tmp_path: Path
) -> None:
    program = _program(tmp_path / "bin", "nvidia", RUNTIME)
    runtimes = {"runtimes": {"nvidia": {"path": str(program)}}}
    own = start_engine(config={**runtimes, "default-runtime": "nvidia"})
    image = _stand_in_image(own, runner, tmp_path / "image")
    how = try_on_gpu(stack(), image, project=ROOT, sources=SOURCES, docker=own.docker, runner=runner)
    assert how.startswith("runtime: ")


def test_a_test_that_fails_on_the_gpu_fails_the_build(
    start_engine: StartEngine, runner: Runner, tmp_path: Path
) -> None:
    program = _program(tmp_path / "bin", "nvidia", RUNTIME.replace("GPU_MARK=runtime", "GPU_MARK=broken"))
    runtimes = {"runtimes": {"nvidia": {"path": str(program)}}}
    own = start_engine(config={**runtimes, "default-runtime": "nvidia"})
    image = _stand_in_image(own, runner, tmp_path / "image")
    with pytest.raises(BuildError, match="the test on the GPU failed") as failure:
        try_on_gpu(stack(), image, project=ROOT, sources=SOURCES, docker=own.docker, runner=runner)
    assert "probing" in str(failure.value)


def test_a_row_that_asks_for_a_gpu_is_not_passed_without_one(
    start_engine: StartEngine, runner: Runner
) -> None:
    own = start_engine()
    with pytest.raises(EngineError, match="no build gets one here"):
        try_on_gpu(stack(), TINY, project=ROOT, sources=SOURCES, docker=own.docker, runner=runner)
