"""The command ``doctor``: what the host, or the cluster of a login node, lacks for a run."""

from __future__ import annotations

import click

from stackwright.cli.app import App, Words, example, print_json, selection
from stackwright.cli.front import json_option
from stackwright.core.errors import EngineError, UsageError
from stackwright.host.output import Output


@click.command("doctor", epilog=example("./build.py doctor", "./build.py doctor --cluster"))
@selection
@click.option("--cluster", is_flag=True, help="on a login node: what rows will do there, the best one first")
@json_option
@click.pass_obj
def doctor_command(app: App, rows: Words, where: Words, cluster: bool, form: str) -> None:
    """Say what is there, what is missing and what to do: engine, apptainer, GPU, disk, mirror, CA.

    With --cluster: Slurm, its PMI, MPI, fabric, driver and Apptainer of the cluster that this is the login
    node of, compared with what the rows have.
    """
    from stackwright.build import doctor
    from stackwright.cli import tables

    if cluster:
        _cluster(app, rows, where, form)
        return
    if rows or where:
        raise UsageError("rows are asked about with --cluster", hint="add it, or leave them out")
    findings = doctor.examine(app.runner, app.project.out, app.environ)
    if form == "json":
        print_json(doctor.as_json(findings))
    else:
        Output().print(tables.findings_table(findings))
    missing = [finding.name for finding in findings if finding.state is doctor.State.MISSING]
    if missing:
        raise EngineError(f"missing: {', '.join(missing)}", hint="the last column says what to do")


def _cluster(app: App, rows: Words, where: Words, form: str) -> None:
    from stackwright.cli import tables
    from stackwright.host import login_node as cluster

    examined = cluster.examine(app.runner, [row.stack for row in app.plan(rows, where).rows])
    if form == "json":
        print_json(cluster.as_json(examined))
    else:
        for table in tables.cluster_tables(examined):
            Output().print(table, soft_wrap=isinstance(table, str))
