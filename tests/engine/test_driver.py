"""What probes/driver.py lends: enough for a library that calls the driver to load, and no device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults.harness import PROBES, base_image

from stackwright.engines import docker as engine
from stackwright.engines.docker import Docker, Mount
from stackwright.host.runner import Runner

SCRIPT = r"""
set -e
python3 -m venv --without-pip /tmp/venv
site=$(/tmp/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir "$site/mxnet" && cd "$site/mxnet"
echo 'int cuInit(unsigned flags); int started(void) { return cuInit(0); }' > mxnet.c
echo 'int cuInit(unsigned flags) { return 0; }' > cuda.c
gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so cuda.c
gcc -shared -fPIC -o libmxnet.so mxnet.c -L. -Wl,--no-as-needed -lcuda
rm libcuda.so
cat > /tmp/try.py <<'PYTHON'
import ctypes, json, os, subprocess, sys, sysconfig
sys.path.insert(0, "/probes")
import driver
load = "import ctypes; print(ctypes.CDLL(%r).started())" % os.path.join(
    sysconfig.get_path("purelib"), "mxnet", "libmxnet.so")
said = {}
for module in ("torch", "horovod.mxnet"):
    lent = driver.environment(module)
    done = subprocess.run([sys.executable, "-c", load], env=dict(os.environ, **lent), capture_output=True)
    said[module] = {"lent": sorted(lent), "out": done.stdout.decode(), "error": done.stderr.decode()}
print(json.dumps(said))
PYTHON
/tmp/venv/bin/python -B /tmp/try.py
"""


@pytest.mark.long
def test_a_library_that_calls_the_driver_loads_and_finds_no_device(
    docker: Docker, runner: Runner, tmp_path: Path
) -> None:
    job = engine.Job(
        image=base_image(docker, runner, tmp_path),
        argv=("sh", "-c", SCRIPT),
        mounts=(Mount(source=PROBES, target="/probes"),),
        network=False,
    )
    done = engine.run(docker, job)
    assert done.ok, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["torch"]["lent"] == []
    assert "libcuda.so.1" in said["torch"]["error"]
    assert said["horovod.mxnet"]["lent"] == ["LD_LIBRARY_PATH"]
    assert said["horovod.mxnet"]["out"] == "100\n", said["horovod.mxnet"]["error"]
