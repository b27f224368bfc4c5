"""Every row of the matrices in the checkout."""

from __future__ import annotations

from rows import ROOT

from stackwright.host.project import Project, cells, plan, sources

PROJECTS = [
    Project(root=ROOT, matrix=ROOT / name, out=ROOT / "out")
    for name in ("matrix.yaml", "matrix.nvidia.yaml", "matrix.arm.yaml")
]
PLAN, NVIDIA, ARM = PLANS = [plan(project, cells(project)) for project in PROJECTS]
ROWS = (*PLAN.rows, *NVIDIA.rows, *ARM.rows)
SOURCES = {row.stack.id: sources(project) for project, found in zip(PROJECTS, PLANS, strict=True)
           for row in found.rows}  # fmt: skip
