#!/usr/bin/env bash
# A cluster of Slurm for tests, without an init system: run it on each node, as root, with the same words.
#
#   scripts/slurm.sh FOLDER NODE[,NODE...]
#
# FOLDER is one that all nodes see; it receives the configuration, the key and the logs. The first NODE runs
# slurmctld too. A node is a machine or a container whose hostname is NODE, with Debian's packages munge,
# slurmctld, slurmd and slurm-client. Nothing under /etc is touched: users set SLURM_CONF=FOLDER/slurm.conf.
# Each node has SLURM_TEST_CPUS processors (4) and as many GPUs, which exist in the configuration only.
set -euo pipefail

folder=$(realpath "$1")
IFS=, read -ra nodes <<<"$2"
cpus=${SLURM_TEST_CPUS:-4}
node=$(hostname -s)
state=/run/slurm-test
conf=$folder/slurm.conf
patience=60

for name in "${nodes[@]}"; do
    [[ $name =~ ^[a-z][a-z0-9-]{0,30}$ ]] || { echo "slurm.sh: $name is not the name of a node" >&2; exit 2; }
done
[[ $cpus =~ ^[1-9][0-9]{0,2}$ ]] || { echo "slurm.sh: SLURM_TEST_CPUS=$cpus is not a number" >&2; exit 2; }

configure() {
    (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
    # Control groups off: a container's own are read-only most of the time.
    echo CgroupPlugin=disabled >"$folder/cgroup.conf"
    echo "Name=gpu File=$state/gpu[1-$cpus]" >"$folder/gres.conf"
    # config_overrides: the nodes share the processors of one machine.
    cat >"$folder/slurm.conf.new" <<END
ClusterName=test
SlurmctldHost=${nodes[0]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$state/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
MpiDefault=none
GresTypes=gpu
NodeName=$2 CPUs=$cpus RealMemory=4096 Gres=gpu:$cpus
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
END
    mv "$folder/slurm.conf.new" "$conf"
}

wait_for() { # WHAT COMMAND...
    local what=$1 left=$patience
    shift
    until "$@" >/dev/null 2>&1; do
        ((left--)) || { echo "slurm.sh: no $what after $patience s; see $folder/*.log" >&2; exit 1; }
        sleep 1
    done
}

all_idle() { [[ $(sinfo --noheader --Node --states=idle --format=%N | sort -u | wc -l) == "${#nodes[@]}" ]]; }

export SLURM_CONF=$conf
mkdir -p "$state/spool" "$state/controller"
chmod 755 "$state"
for ((gpu = 1; gpu <= cpus; gpu++)); do touch "$state/gpu$gpu"; done # Slurm leaves out a GPU without a file
if [[ $node == "${nodes[0]}" ]]; then configure "$@"; fi
wait_for configuration test -e "$conf"
install -m 0600 "$folder/munge.key" "$state/munge.key"
munged --key-file="$state/munge.key" --socket="$state/munge.socket" --pid-file="$state/munged.pid" \
    --log-file="$state/munged.log" --seed-file="$state/munged.seed"
if [[ $node == "${nodes[0]}" ]]; then slurmctld; fi
slurmd
if [[ $node == "${nodes[0]}" ]]; then wait_for "idle nodes" all_idle; fi
