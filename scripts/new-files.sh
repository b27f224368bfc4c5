#!/usr/bin/env bash
# Installs wheels, named by hash, as a tree of new files beside the environment that they are for: it runs in a
# container of the parent image, and the parent's own files are only read.
# Usage: new-files.sh FOLDER, which has additions.txt, perhaps site/ca and site/pip-conf, perhaps more/ with wheels.
# Makes FOLDER/tree, and gives it to OWNER (uid:gid) if that is set.
set -euo pipefail
umask 022
cd "$1"
[ -z "${OWNER:-}" ] || trap 'chown -R "$OWNER" tree wheels' EXIT
mkdir -p tree/opt/stack wheels
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1 HOME="$1"
[ ! -s site/ca ] || export PIP_CERT="$1/site/ca"
[ ! -s site/pip-conf ] || export PIP_CONFIG_FILE="$1/site/pip-conf"
named=(--progress-bar off --no-deps --only-binary :all: --require-hashes)
# A folder that has all of them is enough: then no index is asked.
if [ ! -d more ] || ! /opt/stack/bin/pip download "${named[@]}" --no-index --find-links "$1/more" \
    --dest wheels -r additions.txt; then
    find_links=()
    [ ! -d more ] || find_links=(--find-links "$1/more")
    /opt/stack/bin/pip download "${named[@]}" "${find_links[@]}" --dest wheels -r additions.txt
fi
/opt/stack/bin/pip install "${named[@]}" --no-compile --no-index --find-links "$1/wheels" \
    --ignore-installed --prefix "$1/tree/opt/stack" -r additions.txt
# Sources that are for another Python have no byte code.
/opt/stack/bin/python -m compileall -qq --invalidation-mode checked-hash -s "$1/tree" -p / \
    "$1/tree/opt/stack/lib" || true
