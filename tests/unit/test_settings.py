"""What an image says of itself, key by key: each plant is named by the check that is meant for it, alone."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from image_facts import docker_facts, sif_facts, stack
from report_samples import NOON, built
from rich.console import Console

from stackwright.build.display import Display
from stackwright.core import credentials
from stackwright.core.checks.judge import verify
from stackwright.core.model.record import Layer, Step
from stackwright.core.model.row import Outcome, Stack, Tier
from stackwright.core.render import configuration
from stackwright.engines.docker import Mount
from stackwright.host.runner import Completed
from stackwright.probe.outside.documents import Documents
from stackwright.probe.run import Subject, probe_image
from stackwright.records import files as record
from stackwright.records.report.page import page

ROW = stack()
Change = Callable[[dict[str, Any]], object]
SECRET = "Vq8tGm2x-hunter2"


def judged(facts: dict[str, Any], world: str = "docker", row: Stack = ROW) -> dict[str, str]:
    said = {name: facts[name] for name in ("image", "history", "labels", "scripts") if name in facts}
    seen = facts["system"]["environment"]
    facts["credentials"] = credentials.found_in({**said, "environment": seen if world == "sif" else {}})
    return {check.id: check.detail for check in verify(row, facts, world, {}).failed}


def env(name: str, value: str) -> Change:
    """The last instruction of the image is ENV; the history tells it, too."""

    def change(facts: dict[str, Any]) -> None:
        entries = facts["image"]["Config"]["Env"]
        kept = [entry for entry in entries if not entry.startswith(f"{name}=")]
        facts["image"]["Config"]["Env"] = [*kept, f"{name}={value}"]
        facts["history"]["lines"].append(f"ENV {name}={value}")
        facts["system"]["environment"][name] = value

    return change


def config(**values: Any) -> Change:
    return lambda facts: facts["image"]["Config"].update(values)


def line(text: str) -> Change:
    return lambda facts: facts["history"]["lines"].append(text)


def label(name: str, value: str) -> Change:
    return lambda facts: facts["image"]["Config"]["Labels"].update({name: value})


SETS_ENVIRONMENT = (
    "NCCL_P2P_DISABLE", "NCCL_SOCKET_IFNAME", "NCCL_NET", "HOROVOD_FUSION_THRESHOLD", "HOROVOD_RANK",
    "OMPI_MCA_btl", "PMIX_MCA_gds", "PRTE_ALLOW_RUN_AS_ROOT", "UCX_TLS", "RANK", "WORLD_SIZE", "LOCAL_RANK",
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "LD_AUDIT",
    "OMP_NUM_THREADS", "TORCH_NCCL_BLOCKING_WAIT", "TF_ENABLE_ONEDNN_OPTS", "GLIBC_TUNABLES", "BASH_ENV",
    "SSL_CERT_FILE", "MALLOC_CHECK_",
)  # fmt: skip
"""What makes a training slow, wrong or another one, where an image sets it."""

PLANTS: tuple[tuple[Change, str, str], ...] = (
    *((env(name, "1"), "static.environment", f"sets {name}") for name in SETS_ENVIRONMENT),
    (env("NVIDIA_VISIBLE_DEVICES", "void"), "static.environment", "'void', the row's is 'all'"),
    (env("NVIDIA_DRIVER_CAPABILITIES", "utility"), "static.environment", "'utility'"),
    (env("NVIDIA_REQUIRE_CUDA", "cuda>=9.0"), "static.environment", "'cuda>=9.0'"),
    (env("NVIDIA_DISABLE_REQUIRE", "1"), "static.environment", "NVIDIA_DISABLE_REQUIRE"),
    (env("PATH", "/srv/bin:/usr/bin"), "static.environment", "'/srv/bin:/usr/bin'"),
    (env("LANG", "C"), "static.environment", "LANG is 'C'"),
    (env("https_proxy", "http://proxy.example:3128"), "static.proxy", "https_proxy"),
    (env("LD_LIBRARY_PATH", "/opt/stack/lib"), "static.library-path", "/opt/stack/lib"),
    (env("DB_PASSWORD", SECRET), "static.credentials", "DB_PASSWORD holds a password"),
    (env("WANDB_API_KEY", "0123456789abcdef" * 2 + "01234567"), "static.credentials", "WANDB_API_KEY"),
    (line(f"ENV DB_PASSWORD={SECRET}"), "static.credentials", "history/lines/"),
    (line(f"RUN |1 INDEX_TOKEN={SECRET} /bin/sh -c true"), "static.credentials", "password"),
    (line(f"RUN curl https://build:{SECRET}@index.example/x"), "static.credentials", "login in an address"),
    (line("ENV NCCL_P2P_DISABLE=1 NCCL_DEBUG=INFO"), "static.history", "sets NCCL_DEBUG"),
    (line("/bin/sh -c #(nop)  ENV HOROVOD_CYCLE_TIME=1"), "static.history", "sets HOROVOD_CYCLE_TIME"),
    (line("ARG PIP_INDEX_URL=http://index.example/simple"), "static.history", "(ARG) contains PIP_INDEX_URL"),
    (label("maintainer", "someone"), "static.labels", "the label maintainer is not the row's"),
    (label("org.opencontainers.image.source", "https://elsewhere.example"), "static.labels", "elsewhere"),
    (label("org.opencontainers.image.licenses", "MIT"), "static.labels", "'MIT'"),
    (label("com.example.token", f"token={SECRET}"), "static.credentials", "com.example.token"),
    (config(Entrypoint=["/usr/bin/tini", "--", "/opt/evil"]), "static.entrypoint", "/opt/evil"),
    (config(Entrypoint=["/srv/tini", "-g", "--"]), "static.entrypoint", "/srv/tini"),
    (config(Entrypoint=None), "static.entrypoint", "entry point is empty"),
    (config(Cmd=["/bin/sh"]), "static.entrypoint", "the command is /bin/sh"),
    (config(User="train:0"), "static.user", "'train:0'"),
    (config(WorkingDir=""), "static.workdir", "begins in '/'"),
    (config(OnBuild=["RUN true"]), "static.settings", "OnBuild is ['RUN true']"),
    (config(Volumes={"/workspace": {}}), "static.settings", "Volumes is /workspace"),
    (config(ExposedPorts={"22/tcp": {}}), "static.settings", "ExposedPorts is 22/tcp"),
    (config(StopSignal="SIGKILL"), "static.settings", "StopSignal is SIGKILL"),
    (config(Healthcheck={"Test": ["CMD", "true"]}), "static.settings", "Healthcheck"),
    (config(Shell=["/bin/sh", "-c"]), "static.settings", "Shell is ['/bin/sh', '-c']"),
    (config(Tty=True), "static.settings", "Tty is True"),
    (config(SomethingNew={"a": 1}), "static.settings", "SomethingNew"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "red", "says"), PLANTS, ids=[f"{n}-{plant[1]}" for n, plant in enumerate(PLANTS)]
)
def test_what_is_planted_is_named_by_its_check_alone(change: Change, red: str, says: str) -> None:
    facts = docker_facts(ROW)
    change(facts)
    details = judged(facts)
    assert set(details) == {red}, details
    assert says in details[red]
    assert SECRET not in json.dumps(details)


def environment(**values: str) -> Change:
    return lambda facts: facts["system"]["environment"].update(values)


def script(name: str, text: str) -> Change:
    def change(facts: dict[str, Any]) -> None:
        facts["scripts"][name] = f"#!/bin/sh\n{text}\n" + facts["scripts"][name].partition("\n")[2]

    return change


def of_environment(text: str) -> Change:
    return lambda facts: facts["scripts"]["environment"].update({"/.singularity.d/env/91-more.sh": text})


def other_word(facts: dict[str, Any]) -> None:
    facts["scripts"]["runscript"] = facts["scripts"]["runscript"].replace("/usr/bin/tini", "/srv/tini")


PLANTS_OF_SIF: tuple[tuple[Change, str, str], ...] = (
    (environment(NCCL_P2P_DISABLE="1"), "static.environment", "NCCL_P2P_DISABLE"),
    (environment(NVIDIA_VISIBLE_DEVICES="void"), "static.environment", "'void'"),
    (environment(https_proxy="http://proxy.example"), "static.environment", "https_proxy"),
    (environment(LD_PRELOAD="/srv/lib.so"), "static.environment", "LD_PRELOAD"),
    (environment(SCIF_APPBIN_torch="/srv/bin"), "static.environment", "SCIF_APPBIN_torch"),
    (environment(SCIF_APPBIN_torch="/scif/apps/other/bin"), "static.environment", "SCIF_APPBIN_torch"),
    (environment(DB_PASSWORD=SECRET), "static.credentials", "environment/DB_PASSWORD holds a password"),
    (script("runscript", "/srv/phone-home &"), "static.scripts", "has the line '/srv/phone-home &'"),
    (script("runscript", "OCI_CMD='/srv/evil'"), "static.scripts", "/srv/evil"),
    (other_word, "static.scripts", "/srv/tini"),
    (lambda facts: facts["scripts"].update(runscript='exec "$@"\n'), "static.scripts", "(missing)"),
    (script("startscript", "exec /srv/server"), "static.scripts", "the startscript has the line"),
    (of_environment("export A=$(cat /etc/passwd)"), "static.scripts", "91-more.sh"),
    (of_environment(f"export DB_PASSWORD={SECRET}"), "static.credentials", "password"),
    (of_environment(". /srv/more.sh"), "static.scripts", "'. /srv/more.sh'"),
    (lambda facts: facts["labels"].update({"some.label": "x"}), "static.labels", "some.label"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "red", "says"), PLANTS_OF_SIF, ids=[f"{n}-{plant[1]}" for n, plant in enumerate(PLANTS_OF_SIF)]
)
def test_what_is_planted_in_a_sif_is_named_by_its_check_alone(change: Change, red: str, says: str) -> None:
    facts = sif_facts(ROW)
    change(facts)
    details = judged(facts, "sif")
    assert set(details) == {red}, details
    assert says in details[red]
    assert SECRET not in json.dumps(details)


def test_a_sif_of_a_definition_file_runs_the_same() -> None:
    facts = sif_facts(ROW)
    facts["scripts"]["runscript"] = "\n".join(("#!/bin/sh", "", *configuration.runscript(ROW)))
    facts["scripts"]["startscript"] = "\n".join(("#!/bin/sh", "# why", *configuration.STARTSCRIPT))
    app = "/scif/apps/torch"
    facts["system"]["environment"] |= {
        "SCIF_APPBIN_torch": f"{app}/bin", "SCIF_APPDATA_torch": "/scif/data/torch",
        "SCIF_APPLABELS_torch": f"{app}/scif/labels.json", "SCIF_APPLIB_torch": f"{app}/lib",
        "SCIF_APPMETA_torch": f"{app}/scif", "SCIF_APPROOT_torch": app,
        "SCIF_APPRUN_torch": f"{app}/scif/runscript",
    }  # fmt: skip
    facts["scripts"]["environment"] = {
        "/.singularity.d/env/90-environment.sh": "export PATH=/opt/stack/bin:$PATH\nexport LANG=C.UTF-8\n"
        'export NVIDIA_REQUIRE_CUDA="cuda>=12.0,driver>=525"\n'
    }
    assert judged(facts, "sif") == {}


def test_what_a_builder_notes_is_nothing_of_the_image() -> None:
    facts = docker_facts(ROW)
    facts["image"]["Config"] |= {
        "Hostname": "0123456789ab",
        "Image": "sha256:00",
        "Tty": False,
        "Domainname": "",
    }
    assert judged(facts) == {}


def test_a_label_of_ubuntu_s_image_is_inherited() -> None:
    name = "org.opencontainers.image.ref.name"
    facts = docker_facts(ROW)
    facts["image"]["Config"]["Labels"][name] = "ubuntu"
    assert set(judged(facts)) == {"static.labels"}
    config(Labels=facts["image"]["Config"]["Labels"] | {"org.stackwright.provider": "nvidia"})(facts)
    assert name in configuration.OF_BASE["nvidia"]


# -- nothing of ours holds what was planted ---------------------------------------------------------


LEFT = (
    "files", "system", "link", "fabric", "ofi", "benchmarks",
    "compile", "additions", "compiled", "attack", "together", "stranger",
)  # fmt: skip
"""Facts that the probes leave, by their file's name."""


def planted(tmp_path: Path) -> tuple[Any, Path]:
    """An image with the secret in every place that an image has for it, probed."""
    facts = docker_facts(ROW)
    pem = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvgIBADANBgkqhkiG9w0BAQEFAASC" * 4
    image = facts["image"]
    image["Config"]["Env"].append(f"DB_PASSWORD={SECRET}")
    image["Config"]["Labels"]["com.example.url"] = f"https://build:{SECRET}@site.example"
    image["Config"]["Labels"]["com.example.key"] = pem
    facts["system"]["environment"]["DB_PASSWORD"] = SECRET
    facts["collective"]["torch/mpi"].update(
        ranks=[], code=1, error=f"password={SECRET}", output=f"token: {SECRET}"
    )

    def execute(
        argv: Sequence[str], *, mounts: Sequence[Mount], read_only: bool = False, **_: object
    ) -> Completed:
        folder = next(mount.source for mount in mounts if not mount.read_only)
        own = facts["sealed"] if read_only else facts
        for name in LEFT:
            (folder / f"{name}.json").write_text(json.dumps(own.get(name, {})))
        for name, document in facts["built"].items():
            (folder / f"built-{name}.json").write_text(json.dumps(document))
        for run, document in own["collective"].items():
            (folder / f"collective-{run.replace('/', '-')}.json").write_text(json.dumps(document))
        for name, document in own.get("tool", {}).items():
            (folder / f"tool-{name}.json").write_text(json.dumps(document))
        return Completed(argv=tuple(argv), returncode=0, stdout="", stderr="")

    subject = Subject(
        world="docker", execute=execute, image=image,
        history=[f"ENV DB_PASSWORD={SECRET}", f"RUN |1 TOKEN={SECRET} /bin/sh -c true"],
        outside=lambda: Documents(ledger=facts["ledger"], layers=facts["layers"]),
    )  # fmt: skip
    no_gpu = {Tier.GPU: "no device"}
    probed = probe_image(ROW, subject, probes=Path("probes"), folder=tmp_path / "facts", not_run=no_gpu)
    return probed, tmp_path / "facts"


def test_no_fact_and_no_verdict_holds_what_was_planted(tmp_path: Path) -> None:
    probed, folder = planted(tmp_path)
    details = {check.id: check.detail for check in probed.verdict.failed}
    assert set(details) == {"static.credentials", "collective.run"}
    for place in ("DB_PASSWORD", "com.example.url", "com.example.key", "history/lines/1", "history/lines/2"):
        assert place in details["static.credentials"], place
    written = "".join(path.read_text() for path in folder.iterdir())
    for text in (repr(probed.verdict), json.dumps(probed.facts), written):
        assert SECRET not in text
        assert "MIIEvgIBADANBgkqhkiG9w0" not in text
    assert "[redacted: password]" in written


def test_no_record_page_or_log_holds_what_was_planted(tmp_path: Path) -> None:
    probed, _ = planted(tmp_path)
    layer = Layer(created_by=f"RUN echo password={SECRET}", what="base", bytes=5)
    step = Step(name=f"[final 1/2] ENV TOKEN={SECRET}", seconds=1.0)
    raw = replace(
        built(),
        layers=(layer,),
        steps=(step,),
        verdicts=(probed.verdict,),
        reason=f"https://u:{SECRET}@h.example failed",
    )
    text = record.dumps(raw)
    assert SECRET.encode() not in text
    old = record._ADAPTER.dump_json(raw)  # as one that was written before anything was redacted
    assert SECRET.encode() in old
    kept = record.loads(old, "old")
    assert SECRET not in repr(kept)
    assert SECRET not in page((kept,), (), NOON)
    log = io.StringIO()
    display = Display(console=Console(file=log, width=200))
    display.say(f"a step said password={SECRET}")
    assert SECRET not in log.getvalue()
    assert "[redacted: password]" in log.getvalue()


def test_a_check_says_nothing_of_what_it_saw() -> None:
    facts = docker_facts(ROW)
    facts["link"]["modules"]["torch"]["error"] = f"cannot log in with password={SECRET}"
    check = next(check for check in verify(ROW, facts, "docker", {}).checks if check.id == "link.import")
    assert check.outcome is Outcome.FAILED
    assert SECRET not in check.detail
