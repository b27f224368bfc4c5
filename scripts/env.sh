#!/usr/bin/env bash
# Make .venv from requirements.txt (pinned, by hash), or do nothing where it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/requirements.sha256
wanted=$(sha256sum < requirements.txt)
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0

python=
for candidate in python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "env: no Python 3.11 or later on the PATH" >&2
    echo "  next: install one, as in: apt-get install python3 python3-venv" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    if ! command -v apt-get >/dev/null || { [ -n "$as_root" ] && ! command -v sudo >/dev/null; }; then
        echo "env: $python has no venv module, and this script cannot install it here" >&2
        echo "  next: install the distribution's package for it (python3-venv)" >&2
        exit 1
    fi
    echo "env: installing python3-venv with apt-get, because $python has no venv module"
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi

echo "env: making .venv with $("$python" --version)"
rm -rf .venv
"$python" -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes \
    --only-binary :all: --no-binary www-authenticate -r requirements.txt # that one is published as source alone
echo "$wanted" > "$stamp"
