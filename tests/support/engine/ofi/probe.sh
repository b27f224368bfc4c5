#!/bin/bash
# probe.sh NAME WORDS...: puts a stand-in for NCCL's plugin, compiled with WORDS, where the real one lies, and
# leaves what the probe finds in /facts/NAME.json. "none" as WORDS: there is no plugin.
set -euo pipefail
name=$1; shift
plugin=/usr/local/lib/libnccl-net-ofi.so
rm -f "$plugin"
[[ ${1:-} == none ]] || gcc -shared -fPIC -w -Wl,-soname,libnccl-net-ofi.so "$@" /stand-ins/plugin.c -o "$plugin"
ldconfig
python3 -B /probes/ofi.py "/facts/$name.json"
