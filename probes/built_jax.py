"""Which parts of JAX are there, what its plugin for CUDA was built with, and the libraries that it loads.

Runs inside the image with the image's own Python and imports nothing of Stackwright. JAX looks for its
plugins when it is first asked for devices; each of them then loads NVIDIA's libraries, also where JAX takes
the CPU.
Usage: built_jax.py FACTS.json jax
"""

import importlib
import json
import os
import re
import subprocess
import sys
from importlib import metadata

os.environ.update(JAX_PLATFORMS="cpu", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1", CUDA_VISIBLE_DEVICES="")

import built

PLUGIN = re.compile(r"jax_plugins\.xla_cuda(\d+)")
ASKED = {
    "CUDA runtime": "cuda_runtime", "cuDNN": "cudnn", "cuFFT": "cufft", "cuBLAS": "cublas",
    "cuSPARSE": "cusparse",
}  # fmt: skip
"""What JAX asks before it takes the plugin, and the head of its functions' names. It asks CUPTI as well:
without a driver that ends the process (13.2.86), or answers that there is none (13.5.25)."""


def plugins():
    """The releases of CUDA that there are plugins for, as JAX finds them."""
    found = (
        PLUGIN.fullmatch(entry_point.value) for entry_point in metadata.entry_points(group="jax_plugins")
    )
    return sorted({one[1] for one in found if one})


def parts(releases):
    """Each distribution of JAX with the version that its own module says; that of -pjrt says the day."""
    found = {name: version_of(name) for name in ("jax", "jaxlib")}
    for cuda in releases:
        found["jax-cuda%s-plugin" % cuda] = version_of("jax_cuda%s_plugin" % cuda)
        found["jax-cuda%s-pjrt" % cuda] = metadata.version("jax-cuda%s-pjrt" % cuda)
    return found


def version_of(module):
    try:
        return importlib.import_module(module + ".version").__version__
    except ImportError as error:
        return str(error)


def asks(plugin):
    """The plugin's own answers: the release of each library that it was built with, and that it loads."""
    versions, found = importlib.import_module(plugin + "._versions"), {}
    for name, head in ASKED.items():
        try:
            loads = getattr(versions, head + "_get_version")()
            made = getattr(versions, head + "_build_version")()
            found[name] = {"built": made, "loads": loads, "error": None}
        except Exception as error:
            found[name] = {"error": "%s: %s" % (type(error).__name__, str(error).split("\n")[0])}
    return found


def compiler():
    """What XLA compiles with for a GPU, where JAX finds it: ptxas, and a library of functions for devices."""
    from jax._src.lib import cuda_path

    place = os.path.join(cuda_path or "/", "bin", "ptxas")
    library = os.path.join(cuda_path or "/", "nvvm", "libdevice", "libdevice.10.bc")
    found = {"path": place, "libdevice": os.path.exists(library), "release": None, "error": None}
    try:
        said = subprocess.run([place, "--version"], stdout=subprocess.PIPE, timeout=60, check=True).stdout
        release = re.search(r"release (\d+\.\d+)", said.decode(errors="replace"))
        found["release"] = release and release[1]
    except (OSError, subprocess.SubprocessError) as error:
        found["error"] = str(error)
    return found


def without_gpu():
    """What the plugin says where there is no GPU; None where it starts."""
    from jaxlib import xla_client

    try:
        if not xla_client.pjrt_plugin_initialized("cuda"):
            xla_client.initialize_pjrt_plugin("cuda")
        xla_client.make_c_api_client("cuda", {}, None)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, str(error).split("\n")[0])
    return None


def main():
    import jax

    jax.devices()
    releases = plugins()
    libraries = built.libraries()
    return {
        "version": jax.__version__,
        "parts": parts(releases),
        "asks": asks("jax_cuda%s_plugin" % releases[0]) if releases else {},
        "compiler": compiler(),
        "cuda_without_gpu": without_gpu(),
        "libraries": libraries,
    }


if __name__ == "__main__":
    facts = main()
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
