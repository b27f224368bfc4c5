"""Small images that stand for rows, each with a record as if it had been built and proven."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType

import tiny_images
from own_engine import TINY
from registry_server import RegistryServer

from stackwright.core.model import labels
from stackwright.core.model.matrix import Publish
from stackwright.core.model.record import Image, Record, Status, flatten
from stackwright.core.model.row import Check, Outcome, Recipe, Stack, Tier, Verdict, World
from stackwright.core.model.target import platform_of
from stackwright.core.render import dockerfile
from stackwright.engines import docker as engine
from stackwright.engines import oci_tools
from stackwright.engines.docker import Docker
from stackwright.host.project import Planned, Project, cells, plan
from stackwright.host.runner import Runner
from stackwright.host.site import settings
from stackwright.probe.digest import checks_digest
from stackwright.publish import Publisher
from stackwright.publish.registry.client import Access, Registry
from stackwright.records import files as record

ROOT = Path(__file__).parents[3]
TODAY = date(2026, 1, 2)
BASE = "team/images"
"""The repository of the site."""

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def verdict(
    failed: Iterable[Tier] = (), not_run: Iterable[Tier] = (Tier.GPU,), world: str = "docker"
) -> Verdict:
    outcomes = dict.fromkeys(Tier, Outcome.PASSED)
    outcomes |= dict.fromkeys(failed, Outcome.FAILED) | dict.fromkeys(not_run, Outcome.NOT_RUN)
    checks = (
        Check(id=f"{tier}.x", tier=tier, why="", outcome=what, detail="") for tier, what in outcomes.items()
    )
    return Verdict(world=World(world), checks=tuple(checks))


class Rows:
    """Makes rows in an ``out`` folder of its own; their layers are random, so that nothing shrinks."""

    def __init__(self, out: Path, docker: Docker, runner: Runner) -> None:
        self.project = Project(root=ROOT, matrix=ROOT / "matrix.yaml", out=out)
        self.docker, self.runner = docker, runner
        self.stack = plan(self.project, cells(self.project, ["cuda12-torch"])).rows[0].stack
        self.made: list[str] = []
        self.platforms: Mapping[str, str] = {}

    def row(
        self, name: str, *, kilobytes: int = 64, judged: Verdict | None = None, layer: bytes = b"",
        frameworks: tuple[tuple[str, str], ...] = (("torch", "2.6.0"),),
        gpu_arch: tuple[str, ...] = ("8.0", "9.0"), checks: str = "",
    ) -> Planned:  # fmt: skip
        """Built and recorded. Another call with the same name is the row as it is the next day."""
        stack = replace(self.stack_of(name), frameworks=frameworks, gpu_arch=gpu_arch)
        recipe = Recipe(id=name, key=secrets.token_hex(32), files=())
        image = self._image(stack, recipe, layer or secrets.token_bytes(kilobytes * 1024))
        fresh = Record(
            row=name, key=recipe.key, lock=stack.lock.sha256, started=record.utc(datetime.now(UTC)),
            declared=flatten(dockerfile.declared(stack)), image=image, status=Status.COMPLETE,
            verdicts=(judged or verdict(),), tools=(("checks", checks or checks_digest(ROOT)),),
            host=record.this_host(),
        )  # fmt: skip
        record.begin(fresh, self.project.records)
        return Planned(stack=stack, recipe=recipe)

    def matrix_has(self, *names: str, platforms: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write a matrix with these rows, which is the project's from now on. ``platforms``: of some rows."""
        self.platforms = platforms
        shared: dict[str, object] = {
            "os": "debian-13",
            "python": "3.13",
            "horovod": "0.28.1",
            "gpu_arch": ["8.0"],
        }
        shared |= {"gpu_arch": ["8.0"], "provider": "debian", "mpi": {"flavour": "openmpi", "version": "5.0"}}
        path = self.project.out / "matrix.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"id": name, **shared, **({"platform": platforms[name]} if name in platforms else {})}
            for name in names
        ]
        path.write_text(json.dumps({"include": rows}))
        self.project = replace(self.project, matrix=path)

    def stack_of(self, name: str) -> Stack:
        return replace(self.stack, id=name, platform=platform_of(self.platforms.get(name)))

    def _image(self, stack: Stack, recipe: Recipe, layer: bytes) -> Image:
        reference = dockerfile.reference(recipe)
        label = json.dumps(dockerfile.declared(stack))
        architecture = stack.platform.architecture
        tiny_images.load(
            self.docker, reference, file=layer, labels={labels.STACK: label}, architecture=architecture
        )
        self.made.append(reference)
        found = engine.inspect(self.docker, reference)
        assert found
        return Image(reference=reference, id=found["Id"], bytes=found["Size"], base=TINY)

    def remove(self) -> None:
        for reference in self.made:
            engine.remove(self.docker, reference)

    def record_of(self, row: Planned) -> Record:
        found = record.latest(self.project.records, row.stack.id, row.recipe.key)
        assert found
        return found


def access(server: RegistryServer, address: str = "") -> Access:
    """``address``: of a proxy before it."""
    return Access(host=address or server.address, ca=server.ca, plain=server.ca is None, patience=20)


def publisher(rows: Rows, to: Access, said: list[str], **options: object) -> Publisher:
    by = Publisher(
        project=rows.project, scheme=Publish(), registry=Registry(to, said.append), base=BASE,
        docker=rows.docker, runner=rows.runner, say=said.append, today=TODAY,
        skopeo=lambda: oci_tools.find(
            oci_tools.Name.SKOPEO, rows.runner, rows.docker, mirror=settings.apt_mirror(rows.runner)
        ),
    )  # fmt: skip
    return replace(by, **options)  # type: ignore[arg-type]


def image_at(server: RegistryServer, tag: str) -> str:
    """The id of the image that a tag leads to: the digest of its configuration."""
    found = json.loads(server.get(f"{BASE}/manifests/{tag}", accept=MANIFEST))
    return str(found["config"]["digest"])
