#!/usr/bin/env bash
# pythons.sh: builds the wheel, and installs it with each Python that Stackwright is for, each on a bare host of
# the distribution that has it. There it makes, plans and renders a first repository, without a checkout. On the
# first of the hosts it also brings up an engine, and builds and proves the row, in the words of README.md.
# out/pythons/README.md has the results; what could not be tried is in it with the reason.
#
# pythons.sh --here WHEEL REQUIREMENTS RUN: the part on the bare host. With RUN "run" the row is built.
set -euo pipefail

readonly HOSTS=(3.11:bookworm 3.12:noble 3.13:trixie 3.14:forky)
readonly RUN_ON=bookworm

here() { # the last line is a row of the table
    local wheel=$1 requirements=$2 run=$3 venv=/root/venv version rows built=- started=$SECONDS
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
    mkdir /root/images && cd /root/images
    export PATH="$venv/bin:$PATH"
    stackwright init && stackwright plan && stackwright render
    rows=$(find out/rendered -name Dockerfile | wc -l)
    ((rows > 0)) || { echo "nothing was rendered" >&2; exit 1; }
    [[ $(python -c 'import stackwright; print(stackwright.__file__)') == "$venv"/* ]]
    # What `make env` installs: of every package a wheel for this Python whose hash is in the lock.
    pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --require-hashes \
        --only-binary :all: --no-binary www-authenticate -r "$requirements"
    if [[ $run == run ]]; then
        stackwright engine
        stackwright run
        built=passed
    fi
    # shellcheck source=/dev/null
    . /etc/os-release
    version=$(python -c 'import platform; print(platform.python_version())')
    echo "| $version | $PRETTY_NAME | passed | passed | $built | $((SECONDS - started)) s |"
}

if [[ ${1:-} == --here ]]; then
    here "$2" "$3" "$4"
    exit
fi

cd "$(dirname "$0")/../.."
out=$PWD/out/pythons
rm -rf "$out"
mkdir -p "$out"
.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir "$out" .
wheel=$(basename "$out"/stackwright-*.whl)
cp requirements.txt "$out"
{
    echo "| Python | host | \`init\`, \`plan\`, \`render\` of $wheel | \`requirements.txt\` has its wheels | \`run\` of the first row | time |"
    echo "|---|---|---|---|---|---|"
} >"$out/README.md"
code=0
for host in "${HOSTS[@]}"; do
    python=${host%:*} suite=${host#*:}
    if [[ $suite == noble && -z ${STACKWRIGHT_UBUNTU_MIRROR:-} ]]; then
        echo "| $python | Ubuntu | not tried: STACKWRIGHT_UBUNTU_MIRROR is not set | | | |" | tee -a "$out/README.md"
        continue
    fi
    echo "== Python $python, $suite"
    [[ $suite == "$RUN_ON" ]] && run=run || run=-
    if STACKWRIGHT_BARE_SUITE=$suite tests/e2e/bare_host.sh --out "$out" tests/e2e/pythons.sh --here \
        "/srv/stackwright/out/$wheel" /srv/stackwright/out/requirements.txt "$run" 2>&1 | tee "$out/$suite.log"; then
        tail -n 1 "$out/$suite.log" >>"$out/README.md"
    else
        echo "| $python | $suite | failed: $suite.log | | | |" >>"$out/README.md"
        code=1
    fi
done
cat "$out/README.md"
exit "$code"
