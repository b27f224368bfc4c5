"""What the moving tags of a small project lead to, read while nights publish and are killed."""

from __future__ import annotations

import fcntl
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError

from nightly_on_rows import SET, TEAM
from registry_server import RegistryServer
from small_project import ROWS

from stackwright.publish.indexes import INDEX
from stackwright.publish.moving import LOCK

SCHEMA2 = "application/vnd.docker.distribution.manifest.v2+json"


def key_of(registry: RegistryServer, reference: str) -> str:
    """The key of the image that a tag or a digest leads to."""
    manifest = json.loads(registry.get(f"{TEAM}/manifests/{reference}", accept=SCHEMA2))
    config = json.loads(registry.get(f"{TEAM}/blobs/{manifest['config']['digest']}"))
    return str(config["config"]["Labels"]["org.stackwright.key"])


def standing(registry: RegistryServer) -> tuple[str, ...]:
    """What the moving tags lead to, row by row."""
    return tuple(key_of(registry, row) for row in ROWS)


class Watcher:
    """Reads the tag of all rows together, again and again, as whoever pulls at any moment would.

    docker-registry 2.8 empties a tag's file before it writes it, and answers 500 in between: no set is seen.
    """

    def __init__(self, registry: RegistryServer) -> None:
        self.registry, self.over = registry, threading.Event()
        self.seen: set[tuple[str, ...]] = set()
        self.looks = 0
        self.pool = ThreadPoolExecutor(max_workers=1)

    def _watch(self) -> None:
        while not self.over.wait(0.02):
            try:
                index = json.loads(self.registry.get(f"{TEAM}/manifests/{SET}", accept=INDEX))
            except HTTPError as error:
                if error.code != 500:
                    raise
                continue
            self.seen.add(tuple(manifest["digest"] for manifest in index["manifests"]))
            self.looks += 1

    def __enter__(self) -> Watcher:
        self.watching = self.pool.submit(self._watch)
        return self

    def __exit__(self, *exception: object) -> None:
        self.over.set()
        self.pool.shutdown()
        self.watching.result()


def settled(root: Path, registry: RegistryServer) -> tuple[str, ...]:
    """What the tags lead to when the process that moves them, if there is one, has ended."""
    with (root / "out" / "publish" / LOCK).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return standing(registry)
