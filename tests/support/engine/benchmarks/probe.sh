#!/bin/bash
# probe.sh NAME WORDS...: compiles the stand-in with WORDS for all_reduce_perf, and leaves what the probe finds in
# /facts/NAME.json. The other programs are good ones.
set -euo pipefail
name=$1; shift
programs="all_reduce_perf all_gather_perf reduce_scatter_perf sendrecv_perf alltoall_perf"
place=/usr/local/bin
for program in $programs; do
    cp /tmp/good "$place/$program"
done
rm "$place/all_reduce_perf"
[[ ${1:-} == none ]] || gcc -DNEWEST=90 "$@" /stand-ins/program.c -o "$place/all_reduce_perf" $LIBRARIES
eval "${AFTER:-}"
# shellcheck disable=SC2086
PATH=$PATH:/opt/elsewhere python3 -B /probes/benchmarks.py "/facts/$name.json" $programs
