"""`launch` explains every word of the line that it prints; what a person writes never becomes a command."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import call
from launch_targets import ROW, TARGETS
from rows import stack

from stackwright.core.errors import UsageError
from stackwright.core.launch import launchers
from stackwright.core.launch.launchers import Line


def made(which: str, launcher: str = "mpirun", command: tuple[str, ...] = ("true",), **site: Any) -> Line:
    """By a launcher whose recipe is one command."""
    found = launchers.site(hosts_text=site.pop("hosts", "a:2,b:2"), **site)
    line = launchers.LAUNCHERS[launcher].make(TARGETS[which], found, command)
    assert isinstance(line, Line)
    return line


def has(words: tuple[str, ...], *wanted: str) -> bool:
    """Whether these words stand side by side."""
    size = len(wanted)
    return any(words[at : at + size] == wanted for at in range(len(words) - size + 1))


@pytest.mark.parametrize(
    ("which", "wanted"),
    [
        ("openmpi 5", ("--mca", "plm_ssh_args", "-p 2222 -i /k ")),
        ("openmpi 5", ("--prtemca", "prte_if_include", "ib0")),
        ("openmpi 5", ("--mca", "btl", "self,sm,tcp")),
        ("openmpi 4", ("--mca", "plm_rsh_args", "-p 2222 -i /k ")),
        ("openmpi 4", ("--mca", "oob_tcp_if_include", "ib0")),
        ("openmpi 4", ("--mca", "btl", "self,vader,tcp")),
        ("openmpi 4", ("--mca", "btl_tcp_if_include", "ib0")),
        ("openmpi 4", ("-x", "NCCL_SOCKET_IFNAME=ib0")),
        ("mpich", ("-iface", "ib0")),
        ("mpich", ("-genv", "UCX_NET_DEVICES", "ib0")),
        ("mpich", ("-genv", "NCCL_SOCKET_IFNAME", "ib0")),
        ("mpich", ("-hosts", "a:2,b:2")),
    ],
)
def test_each_mpi_is_told_in_its_own_words(which: str, wanted: tuple[str, ...]) -> None:
    words = made(which, interface="ib0", ssh_key="/k", fabric="tcp").argv
    head = tuple(word.partition("-o ")[0] for word in words)
    assert has(head, *wanted), words
    assert has(words, "-np", "4")


def test_hydra_gets_the_options_of_ssh_by_its_variable() -> None:
    assert made("mpich", ssh_key="/k").environment["HYDRA_LAUNCHER_EXTRA_ARGS"].startswith("-p 2222 -i /k ")


@pytest.mark.parametrize("which", TARGETS)
def test_infiniband_allows_no_way_by_tcp(which: str) -> None:
    text = made(which, fabric="infiniband", interface="ib0", hca="mlx5_0:1").line
    assert "NCCL_NET" in text
    assert "=mlx5_0:1" in text
    assert "rc,sm,self" in text
    assert "UCX_NET_DEVICES" in text
    assert "NCCL_IB_DISABLE" not in text
    assert "btl" not in text


@pytest.mark.parametrize("which", ["openmpi 4", "openmpi 5"])
def test_libfabric_is_taken_by_mpi_and_by_nccl_or_nothing_is(which: str) -> None:
    line = made(which, fabric="ofi", provider="efa", interface="eth0")
    common = "opal_common_ofi" if which == "openmpi 5" else "mtl_ofi"
    for words in (("pml", "cm"), ("mtl", "ofi"), (f"{common}_provider_include", "efa")):
        assert has(line.argv, "--mca", *words)
    for variable in ("NCCL_NET_PLUGIN=ofi", "NCCL_NET=Libfabric", "FI_PROVIDER=efa"):
        assert has(line.argv, "-x", variable)
    assert "UCX" not in line.text.partition("prove_world")[0] and "btl" not in line.line
    assert "ofi=efa" in line.text
    assert "FI_PROVIDER" not in made(which, fabric="ofi").text


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun", "torchrun"])
@pytest.mark.parametrize("which", TARGETS)
def test_infiniband_is_switched_off_only_where_tcp_is_asked_for(which: str, launcher: str) -> None:
    asked, free = (made(which, launcher, fabric=fabric).text for fabric in ("tcp", "auto"))
    assert "NCCL_IB_DISABLE" in asked
    assert made(which, launcher).text == free
    for word in ("NCCL_IB_DISABLE", "NCCL_NET", "UCX_TLS", "btl", "ob1"):
        assert word not in free


def test_open_mpi_may_take_what_debian_rules_out() -> None:
    """`pml = ^ucx` of its openmpi-mca-params.conf would leave TCP alone."""
    assert has(made("openmpi 5").argv, "--mca", "pml", "^v")


def test_a_container_sees_infiniband_where_its_host_has_it(tmp_path: Path) -> None:
    """`docker run --device` fails for what is not there: the line asks the host."""
    start = next(line for line in made("openmpi 5").before if "docker run" in line)
    asks = "$(test ! -e /dev/infiniband || echo --device /dev/infiniband)"
    assert asks in start
    (tmp_path / "there").touch()
    for path, said in (("there", f"--device {tmp_path}/there\n"), ("not", "\n")):
        line = f"echo {asks.replace('/dev/infiniband', f'{tmp_path}/{path}')}"
        assert subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout == said


def test_torchrun_is_one_line_for_every_node() -> None:
    found = made("openmpi 5", "torchrun", ("python", "t.py"), hosts="a:4,b:4,c:4", interface="eth0")
    assert found.argv == (
        "torchrun", "--nnodes=3", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=a:29500",
        f"--rdzv-id={TARGETS['openmpi 5'].row}", "--no-python", "python", "t.py",
    )  # fmt: skip
    assert found.environment == {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    with pytest.raises(UsageError, match="as many ranks on each node"):
        made("openmpi 5", "torchrun", hosts="a:4,b:2")


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_the_program_is_in_the_containers_that_it_is_started_in(launcher: str) -> None:
    """As with --docker and --pyxis: the line ends in `python train.py`, which no image has."""
    assert " -v .:/workspace " in next(
        line for line in made("openmpi 5", launcher).before if "docker run" in line
    )


def test_an_nccl_that_does_not_know_it_is_not_told_its_network() -> None:
    old = launchers.Target.of(stack(nccl="2.8.3", nccl_code=2803), "i")
    site = launchers.site(hosts_text="a:2", fabric="infiniband")
    assert "NCCL_NET=" not in launchers.LAUNCHERS["mpirun"].make(old, site, ("true",)).text


def test_horovodrun_sets_the_interface_itself_and_nothing_of_mpi() -> None:
    found = made("openmpi 5", "horovodrun", interface="eth0", ssh_key="/k")
    assert found.argv == (
        "horovodrun", "--gloo", "-np", "4", "-H", "a:2,b:2", "-p", "2222", "-i", "/k",
        "--network-interfaces", "eth0", "true",
    )  # fmt: skip
    assert found.environment == {}


def test_docker_runs_as_the_caller_of_the_line(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        ["bash", "-c", made("openmpi 5", "docker").text], env=path, capture_output=True, text=True, check=True
    )
    assert f"--user={os.getuid()}:{os.getgid()}" in said.stdout.splitlines()


@pytest.mark.parametrize("fabric", launchers.FABRICS)
@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun", "torchrun", "docker"])
@pytest.mark.parametrize("which", TARGETS)
def test_every_word_is_explained_and_all_can_be_pasted(which: str, launcher: str, fabric: Any) -> None:
    command = ("python", "my train.py", "$(touch x)", "#", "'")
    found = made(which, launcher, command, interface="eth0", ssh_key="/k", fabric=fabric)
    text = launchers.script(found)
    assert text.endswith(f"\n{found.text}")
    assert all(remark.startswith("# ") for remark in text.removesuffix(found.text).splitlines())
    line = text.rsplit("\n", 1)[1]
    explained = [setting for setting, _ in found.settings]
    variables, options = explained[: len(found.variables)], explained[len(found.variables) :]
    assert line == " ".join([*variables, found.program, *options, shlex.join(command)])
    assert all(why for _, why in found.settings)
    assert shlex.split(line)[-len(command) :] == list(command)


@pytest.mark.parametrize(
    "hosts",
    ["", ",", "a,", "a:0", "a:-1", "a:2:2", "a:99999", "a:4096,b:1", "a,a", "a:1,A:2", "-a:2", "a-:2", "a..b",
     "a b", "a:2;id", "$(id)", "`id`", "a\n", "a:2\n", "a:2\nb:2", "[::1]:2", "ä:2", "a:٣",
     "x" * 64, "a." * 127 + "a"],
)  # fmt: skip
def test_what_is_no_host_is_refused(hosts: str) -> None:
    with pytest.raises(UsageError):
        launchers.hosts(hosts)


def test_hosts_are_names_or_addresses() -> None:
    found = launchers.hosts("a,node-1.example.org:8,10.0.0.7:2")
    assert [str(host) for host in found] == ["a:1", "node-1.example.org:8", "10.0.0.7:2"]
    assert launchers.hosts("x" * 63 + ":2")[0].slots == 2


@pytest.mark.parametrize("bad", ["", "-e", "eth0;id", "eth0,eth1", "eth0\n", "$(id)", "e" * 16, "eth0 "])
def test_what_is_no_interface_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="--interface"):
        launchers.site(hosts_text="a", interface=bad)


@pytest.mark.parametrize("bad", ["", "-o", "/k y", "/k\n", "$(id)", "/k;id", "-oProxyCommand=x", "'"])
def test_what_could_be_an_option_of_ssh_is_no_key(bad: str) -> None:
    with pytest.raises(UsageError, match="--ssh-key"):
        launchers.site(hosts_text="a", ssh_key=bad)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "opt",
        "/",
        "/opt/",
        "/opt:/etc",
        "/opt,/etc",
        "/opt mpi",
        "/opt\n",
        "/../etc",
        "/$(id)",
        "/-x",
        "//a",
    ],
)
def test_what_is_no_folder_is_not_bound(bad: str) -> None:
    with pytest.raises(UsageError, match="--host-mpi"):
        launchers.site(host_mpi=bad)


def test_a_device_is_written_with_its_port_and_is_of_infiniband() -> None:
    for bad in ("mlx5_0", "mlx5_0:1,mlx5_1:1", "^mlx5_0:1", "$(id):1"):
        with pytest.raises(UsageError, match="--hca"):
            launchers.site(hosts_text="a", fabric="infiniband", hca=bad)
    with pytest.raises(UsageError, match="infiniband"):
        launchers.site(hosts_text="a", hca="mlx5_0:1")


def test_the_command_prints_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "launch",
        ROW,
        "--mpirun",
        "--hosts",
        "a:2,b:2",
        "--format",
        "json",
        "--",
        "python",
        "x.py",
        "--lr",
        "1",
    )
    code, out, err = call(capsys, *words)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert (document["id"], document["launcher"]) == (ROW, "mpirun")
    assert shlex.split(document["line"]) == document["argv"]
    assert document["argv"][-4:] == ["python", "x.py", "--lr", "1"]


def test_without_a_command_it_is_train_py(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "launch", ROW, "--horovodrun", "--hosts", "a:2")
    assert code == 0
    assert out.endswith(" python train.py\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((ROW, "--hosts", "a"), "0 launchers"),
        ((ROW, "--hosts", "a", "--mpirun", "--horovodrun"), "2 launchers"),
        ((ROW, "--mpirun"), "--hosts"),
        ((ROW, "--slurm", "--hosts", "a"), "--hosts means nothing to --slurm"),
        ((ROW, "--mpirun", "--hosts", "a", "--nodes", "2"), "--nodes means nothing to --mpirun"),
        ((ROW, "--docker", "--nodes", "2"), "--nodes means nothing"),
        ((ROW, "--kubernetes", "--pyxis"), "--pyxis means nothing"),
        ((ROW, "--slurm", "--nodes", "0"), "nodes"),
        ((ROW, "--slurm", "--pyxis", "--host-mpi", "/opt/mpi"), "another way"),
        ((ROW, "--slurm", "--edf", "--podman-hpc"), "two ways"),
        ((ROW, "--torchrun", "--hosts", "a:2,b:2"), "--torchrun starts programs of"),
        ((ROW, "--torchrun", "--hosts", "a", "--ssh-key", "/k"), "--ssh-key means nothing"),
        ((ROW, "--slurm", "--host-mpi", "/opt/mpi;id"), "/opt/mpi;id"),
        (("*", "--mpirun", "--hosts", "a"), "name one of them"),
        (("cuda12-troch", "--mpirun", "--hosts", "a"), ROW),
        ((ROW, "--mpirun", "--hosts", "a;id"), "a;id"),
        ((ROW, "--mpirun", "--hosts", "a", "--ssh-port", "0"), "ssh-port"),
        ((ROW, "--mpirun", "--hosts", "a", "--fabric", "roce"), "infiniband"),
        ((ROW, "--mpirun", "--hosts", "a", "--fabric", "ofi"), "needs NCCL's plugin for libfabric"),
        ((ROW, "--mpirun", "--hosts", "a", "--provider", "efa"), "--provider is about libfabric"),
        ((ROW, "--mpirun", "--hosts", "a", "--fabric", "ofi", "--provider", "e;f"), "e;f"),
        ((ROW, "--mpirun", "--hosts", "a", "--benchmark"), "--benchmark needs nccl-tests, which"),
        ((ROW, "--mpirun", "--hosts", "a", "--link-speed", "400"), "--link-speed is about what is measured"),
        ((ROW, "--mpirun", "--hosts", "a", "--benchmark", "--", "true"), "runs all_reduce_perf, and no true"),
        ((ROW, "--docker", "--benchmark"), "--benchmark means nothing to --docker"),
        ((ROW, "--slurm", "--benchmark", "--link-speed", "0"), "link-speed"),
    ],
)
def test_a_wrong_command_line_is_one_message(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "launch", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
