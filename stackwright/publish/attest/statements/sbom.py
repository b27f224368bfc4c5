"""What is in an image, as a CycloneDX document: packages as the probes saw them, Horovod with its patches.

Pure: the same image, record and facts give the same document. The library writes CycloneDX; which component
is which field of the record is data here, so that ``verify`` compares the two by the same table.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cyclonedx.model import AttachedText, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Component,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from stackwright import __version__
from stackwright.core.benchmarks import nccl_tests
from stackwright.core.checks.observed import Facts, dig
from stackwright.core.components.table import COMPONENTS, PATCHED
from stackwright.core.errors import AttestError
from stackwright.core.model.record import Record
from stackwright.core.model.target import APT, CUDA
from stackwright.core.ofi import plugin

NVIDIA_LIBRARIES = {
    "cuda_runtime": ("cudart", "cuda-runtime"),
    "cudnn": ("cudnn", "cudnn"),
    "nccl": ("nccl", "nccl"),
}
"""Field of a record -> the library in the facts, and its component's name: what Horovod really loads."""

FROM_ARCHIVES = {
    plugin.NAME: ("aws", (plugin.LIBRARY,)),
    nccl_tests.NAME: ("NVIDIA", tuple(f"{nccl_tests.FOLDER}/{name}" for name in nccl_tests.PROGRAMS)),
}
"""Who has the repository of what is compiled from an archive of it, and where it lies in an image."""

PATCHES = f"patches/{PATCHED.name}/"
_PATCH_FILE = re.compile(rf"{PATCHED.name}/patches/\d+-(?P<name>.+)")


def bom(record: Record, facts: Facts, *, image: str, patches: Mapping[str, bytes]) -> dict[str, Any]:
    """``image`` is the manifest's digest, ``patches`` the content of each by its name.

    AttestError where the facts name no packages, or the image has none of the patches that it is to have.
    """
    components = tuple(_components(record, facts, patches))
    root = Component(
        name=record.row, type=ComponentType.CONTAINER, version=record.key[:12], bom_ref=image,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=image.removeprefix("sha256:"))],
        properties=[Property(name="org.stackwright.key", value=record.key)],
    )  # fmt: skip
    tool = Component(name="stackwright", type=ComponentType.APPLICATION, version=__version__)
    made = Bom(
        components=components,
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{image}/{record.row}/{record.started}"),
        metadata=BomMetaData(component=root, timestamp=datetime.fromisoformat(record.started)),
    )
    made.metadata.tools.components.add(tool)
    made.register_dependency(root, components)
    document: dict[str, Any] = json.loads(JsonV1Dot6(made).output_as_string())
    return document


def patches_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the patches among the files of a build's context, by name."""
    return {
        match["name"]: content for path, content in files.items() if (match := _PATCH_FILE.fullmatch(path))
    }


def _components(record: Record, facts: Facts, patches: Mapping[str, bytes]) -> Iterator[Component]:
    distribution, python = (dig(facts, "system", f"{name}_packages") for name in ("distribution", "python"))
    if not distribution or not python:
        raise AttestError("the facts name no packages", place=record.row, hint="./build.py probe makes them")
    family, _, release = dict(record.declared).get("os", "").partition("-")
    yield Component(name=family, type=ComponentType.OPERATING_SYSTEM, version=release, bom_ref="os")
    for name, version in sorted(distribution.items()):
        qualifiers = {"distro": f"{family}-{release}"}
        yield _package(name, str(version), PackageURL(APT.purl, family, name, str(version), qualifiers))
    for name, versions in sorted(python.items()):
        for version in str(versions).split(" and "):  # as probes/system.py joins them
            yield _python(record, name, version, patches)
    yield from _nvidia(record, facts)
    for name, (owner, paths) in FROM_ARCHIVES.items():
        if version := dict(record.found).get(name):
            where = [Property(name="org.stackwright.file", value=path) for path in paths]
            yield _package(name, version, PackageURL("github", owner, name, f"v{version}"), properties=where)


def _package(name: str, version: str, purl: PackageURL, **more: Any) -> Component:
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl), **more
    )


def _python(record: Record, name: str, version: str, patches: Mapping[str, bytes]) -> Component:
    purl = PackageURL("pypi", None, name, version)
    if name == PATCHED.package:
        return _package(name, version, purl, pedigree=_pedigree(record, patches))
    by = OrganizationalEntity(name=CUDA.vendor) if CUDA.is_wheel(name) else None
    return _package(name, version, purl, supplier=by)


def _pedigree(record: Record, patches: Mapping[str, bytes]) -> Pedigree | None:
    """Return each patch with its text: the file on the index is not what is in the image."""
    wanted = dict(record.declared).get("patches", "").split()
    if missing := [name for name in wanted if name not in patches]:
        raise AttestError(f"no text of the patch {missing[0]}", place=record.row)
    made = [
        Patch(
            type=PatchClassification.UNOFFICIAL,
            diff=Diff(url=XsUri(PATCHES + name), text=_text(patches[name])),
        )
        for name in wanted
    ]
    return Pedigree(patches=made) if made else None


def _text(content: bytes) -> AttachedText:
    return AttachedText(content=content.decode(errors="replace"), content_type="text/x-diff")


def _nvidia(record: Record, facts: Facts) -> Iterator[Component]:
    """The libraries by the names that people know, with the file that Horovod loads."""
    found = dict(record.found)
    built = dig(facts, "built")
    for field, (library, name) in NVIDIA_LIBRARIES.items():
        if field not in found:
            continue
        paths = sorted(
            {str(dig(extension, "libraries", library, "path")) for extension in (built or {}).values()}
        )
        yield Component(
            group=CUDA.vendor, name=name, version=found[field], type=ComponentType.LIBRARY,
            supplier=OrganizationalEntity(name=CUDA.vendor), bom_ref=f"nvidia/{name}",
            purl=PackageURL("generic", "nvidia", name, found[field]),
            properties=[Property(name="org.stackwright.file", value=path) for path in paths],
        )  # fmt: skip


# -- compared with the record ----------------------------------------------------------------------


def disagreement(document: Mapping[str, Any], record: Record) -> str:
    """Return what the document says otherwise than the record, in a line; "" where they agree."""
    found = dict(record.found)
    versions = {field: _versions(document, f"nvidia/{name}") for field, (_, name) in NVIDIA_LIBRARIES.items()}
    for component in COMPONENTS:
        versions[component.name] = _versions(document, f"pkg:pypi/{component.package}@")
    for name, (owner, _) in FROM_ARCHIVES.items():
        versions[name] = _versions(document, f"pkg:github/{owner.lower()}/{name}@")
    for field, seen in versions.items():
        if field in found and found[field] not in seen:
            return f"{field} is {found[field]} in the record, and {', '.join(sorted(seen)) or 'absent'} in it"
    patches = {url.removeprefix(PATCHES) for url in _patch_urls(document)}
    listed = " ".join(sorted(patches)) or "none"
    if "patches" in found and patches != set(found["patches"].split()):
        return f"{PATCHED.title}'s patches are {found['patches']} in the record, and {listed} in it"
    return ""


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _versions(document: Mapping[str, Any], reference: str) -> set[str]:
    components = _listed(document.get("components"))
    return {
        str(component.get("version"))
        for component in components
        if str(component.get("bom-ref")).startswith(reference)
    }


def _patch_urls(document: Mapping[str, Any]) -> Iterator[str]:
    for component in _listed(document.get("components")):
        for patch in _listed(dig(component, "pedigree", "patches")):
            yield str(dig(patch, "diff", "url"))
