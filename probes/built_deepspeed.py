"""What DeepSpeed was compiled with, its operators, and the libraries that it loads.

Runs inside the image with the image's own Python and imports nothing of Stackwright.
Usage: built_deepspeed.py FACTS.json deepspeed
"""

import json
import os
import subprocess
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import built

OPERATORS = """
import json
from deepspeed.ops.op_builder.all_ops import ALL_OPS
from deepspeed.git_version_info import installed_ops
found = {}
for name, builder in ALL_OPS.items():
    found[name] = {"compiled": bool(installed_ops.get(name)), "error": None}
    if found[name]["compiled"]:
        try:
            builder.load()
        except Exception as error:
            found[name]["error"] = "%s: %s" % (type(error).__name__, error)
print("FACTS" + json.dumps(found))
"""


def operators():
    """Each operator for a GPU: whether it was compiled with the image, and then whether it loads."""
    environment = dict(os.environ, DS_ACCELERATOR="cuda")
    argv = [sys.executable, "-B", "-c", OPERATORS]
    done = subprocess.run(argv, capture_output=True, timeout=240, env=environment, check=False)
    text = done.stdout.decode(errors="replace")
    if done.returncode or "FACTS" not in text:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {"error": "exit code %d: %s" % (done.returncode, " ".join(last))}
    return json.loads(text[text.rindex("FACTS") + len("FACTS") :].splitlines()[0])


def main():
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    from deepspeed.git_version_info import torch_info

    return {
        "version": deepspeed.__version__,
        "compiled_against": torch_info,
        "operators": operators(),
        "libraries": built.libraries(),
    }


if __name__ == "__main__":
    facts = main()
    with open(sys.argv[1], "w") as handle:
        json.dump(facts, handle, indent=1, sort_keys=True)
