"""skopeo, oras and cosign as on a host that has them: a container for each call takes most of a test's time.

They are the programs of the image that Stackwright makes, with the libraries that they have there.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker, Job, Mount
from stackwright.host.runner import Runner
from stackwright.host.site import settings

CACHE = Path(__file__).resolve().parents[3] / "out" / "cache"
COPY = """\
set -e
cp /etc/containers/policy.json /out/
for name in "$@"; do
    cp /usr/bin/$name /out/$name
    for path in $(ldd /usr/bin/$name | sed -n 's/.* => \\(\\S*\\) .*/\\1/p'); do cp -L $path /out/lib/; done
done
cp -L /lib64/ld-linux-x86-64.so.2 /out/lib/ld.so
"""
WRAPPER = '#!/bin/sh\nexec {folder}/lib/ld.so --library-path {folder}/lib {folder}/{name}{options} "$@"\n'
OPTIONS = {"skopeo": " --policy {folder}/policy.json"}


def bin_folder(runner: Runner, docker: Docker) -> Path:
    """A folder for the PATH. The image is made where it is not there, which takes a minute."""
    names = tuple(oci_tools.Name)
    oci_tools.find(oci_tools.Name.SKOPEO, runner, docker, mirror=settings.apt_mirror(runner))
    image = engine.inspect(docker, oci_tools.IMAGE.name)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "oci-tools.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = CACHE / f"oci-tools-{str(image['Id'])[7:19] if image else 'host'}"
        if image and not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            for name in ("lib", "bin"):
                (part / name).mkdir(parents=True)
            out = Mount(source=part, target="/out", read_only=False)
            argv = ("sh", "-c", COPY, "sh", *names)
            done = engine.run(
                docker, Job(image=oci_tools.IMAGE.name, argv=argv, mounts=(out,), network=False)
            )
            assert done.ok, done.stderr
            for name in names:
                options = OPTIONS.get(name, "").format(folder=folder)
                wrapper = part / "bin" / name
                wrapper.write_text(WRAPPER.format(folder=folder, name=name, options=options))
                wrapper.chmod(0o755)
            part.rename(folder)
    return folder / "bin"
