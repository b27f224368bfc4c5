"""The new files of a layer: installed in a container of the parent, into a folder of their own."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from stackwright.build.derived.prove import Subject
from stackwright.core.errors import BuildError, RejectedError
from stackwright.core.facts import distributions
from stackwright.core.layer import hidden
from stackwright.core.layer.asked import Resolved
from stackwright.core.ledger.entry import Entry, Kind, Layer, Tree
from stackwright.core.model.epoch import EPOCH
from stackwright.core.model.row import World
from stackwright.engines import docker as engine
from stackwright.engines.docker import Mount
from stackwright.engines.tool_image import last_line
from stackwright.host.runner import Completed
from stackwright.host.shipped import SCRIPTS
from stackwright.host.site import settings
from stackwright.probe import site_leaks
from stackwright.probe.outside.layers import Read, in_folder

SCRIPT = SCRIPTS / "new-files.sh"
TIMEOUT = 1800
SHOWN = 5
"""Files that a refusal names."""
INSIDE = "/layer"
"""Where the folder is in the container; the script is next to the root."""


def install(of: Subject, os_name: str, found: Resolved, folder: Path, wheels: Path | None) -> Path:
    """Return the tree of new files, below ``folder``. BuildError where pip ends otherwise than well."""
    (folder / "additions.txt").write_text(found.pins)
    secrets = settings.site_secrets(folder / "secrets", of.site, distributions.known(os_name))
    (folder / "site").mkdir()
    for secret in secrets:
        if secret.id in ("ca", "pip-conf"):
            secret.path.rename(folder / "site" / secret.id)
    shutil.rmtree(folder / "secrets")
    more = (Mount(source=wheels.resolve(), target=f"{INSIDE}/more"),) if wheels else ()
    if wheels:
        (folder / "more").mkdir()
    mounts = (
        Mount(source=SCRIPT, target=f"/{SCRIPT.name}"), Mount(source=folder, target=INSIDE, read_only=False),
        *more,
    )  # fmt: skip
    done = _run(of, ("/bin/bash", f"/{SCRIPT.name}", INSIDE), mounts)
    shutil.rmtree(folder / "site")
    if not done.ok:
        raise BuildError(f"the layer's wheels cannot be installed: {last_line(done)}", place=of.image.image)
    return folder / "tree"


def _run(of: Subject, argv: tuple[str, ...], mounts: tuple[Mount, ...]) -> Completed:
    if of.image.world is World.SIF:
        return of.apptainer.exec(of.path, argv, binds=mounts, timeout=TIMEOUT)
    assert of.docker is not None, "it is an image of the engine"
    owner = (("OWNER", f"{os.getuid()}:{os.getgid()}"),)
    job = engine.Job(
        image=of.image.id, entrypoint=argv[:1], argv=argv[1:], mounts=mounts, user="0", env=owner, workdir="/"
    )
    return engine.run(of.docker, job, timeout=TIMEOUT)


def read(tree: Path, of: Subject) -> Read:
    """Return what is in the tree, as root would own it. Nothing of the site may be in it."""
    found = in_folder(tree, site_leaks.search(of.site))
    left = sorted({f"{file.path} ({', '.join(file.left)})" for file in found.seen if file.left})
    if left:
        raise RejectedError(f"the new files hold settings of the site: {', '.join(left[:SHOWN])}")
    return found


def refuse_hidden(layer: Layer, parent: Tree, row: str) -> None:
    """Raise RejectedError where a file of the parent would be hidden, by its name."""
    problems = list(hidden.problems(layer.entries, parent))
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise RejectedError(
            f"{'; '.join(problems[:SHOWN])}{more}", place=f"the layer on {row}",
            hint="a layer hides no file of its parent: leave out the package that brings it",
        )  # fmt: skip


def archive(tree: Path, entries: Iterable[Entry]) -> bytes:
    """Return the layer as a tar: of root, sorted, and with the time that all our builds have."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as target:
        for entry in sorted(entries, key=lambda entry: entry.path):
            member = tarfile.TarInfo(entry.path.lstrip("/"))
            member.mtime, member.mode = EPOCH, entry.mode
            if entry.kind is Kind.FOLDER:
                member.type = tarfile.DIRTYPE
                target.addfile(member)
            elif entry.kind is Kind.LINK:
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
                target.addfile(member)
            else:
                content = (tree / member.name).read_bytes()
                member.size = len(content)
                target.addfile(member, io.BytesIO(content))
    return made.getvalue()
