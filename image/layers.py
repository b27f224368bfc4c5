"""Link the files of an environment into one folder for each layer of the image.

    layers.py ENVIRONMENT LAYERS LIST

LIST is JSON: the name of each layer, with the distributions whose files are in it. What is of none of them is
in the layer "rest". The files stay where they are as well: a link needs no room.
"""

import json
import os
import sys
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path


def files(name):
    """Yield the files of a distribution by its RECORD, and the byte code of its sources."""
    found = distribution(name)
    for file in found.files or ():
        path = os.path.normpath(found.locate_file(file))
        yield path
        if path.endswith(".py"):
            yield cache_from_source(path)


def every(environment):
    """Yield all files, links and empty folders."""
    for folder, folders, names in os.walk(environment):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in names + links)
        if not names and not folders:
            yield Path(folder)


def link(path, layer):
    """Make a path once more below the folder of its layer."""
    copy = Path(f"{layer}{path}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        copy.mkdir(exist_ok=True)
    else:
        os.link(path, copy, follow_symlinks=False)


def main(environment, layers, listed):
    groups = json.loads(Path(listed).read_text(encoding="ascii"))
    layer_of = {}
    for layer, names in groups.items():
        for path in (path for name in names for path in files(name)):
            layer_of.setdefault(path, layer)
    for path in list(every(environment)):
        link(path, Path(layers, layer_of.get(str(path), "rest")))


if __name__ == "__main__":
    main(*sys.argv[1:])
