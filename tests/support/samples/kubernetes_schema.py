"""What the API server of Kubernetes takes: the schemas that an operator publishes, and nothing besides."""

from __future__ import annotations

import json
from typing import Any

from rows import ROOT

PUBLISHED = json.loads((ROOT / "tests" / "unit" / "mpijob.crd.json").read_text(encoding="utf-8"))
"""Of the definition that the MPI Operator publishes, with all of a pod; no Python package carries it."""


def strict(schema: Any) -> Any:
    """As the API server does with --validate=strict: no field that the definition does not know."""
    if isinstance(schema, list):
        return [strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    known = schema.get("properties")
    if schema.get("type") == "object" and isinstance(known, dict) and set(known) != {"name"}:
        made.setdefault("additionalProperties", schema.get("x-kubernetes-preserve-unknown-fields", False))
    if "metadata" in made.get("properties", {}) and not schema["properties"]["metadata"].get("properties"):
        made["properties"]["metadata"] = {"type": "object"}
    return made


def pod() -> dict[str, Any]:
    """Return the schema of a pod's template."""
    replicas = PUBLISHED["properties"]["spec"]["properties"]["mpiReplicaSpecs"]["additionalProperties"]
    found: dict[str, Any] = strict(replicas["properties"]["template"])
    return found
