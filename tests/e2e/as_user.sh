#!/usr/bin/env bash
# as_user.sh COMMAND...: runs a command as an ordinary user with an engine without root, in a clean clone of HEAD.
#
# Root makes the user, gives it what root alone can give (scripts/engine.sh --rootless --for), and becomes it: so it
# is on a bare host (tests/e2e/bare_host.sh). Anybody else runs the command here, with an engine of their own.
# What the user made stays for the next time: the clone's out/, and the engine's images.
#
# Environment: STACKWRIGHT_ROOTLESS_USER (stackwright), STACKWRIGHT_ROOTLESS_PLACE (folder of the user's home, /var/tmp).
# The command's exit code is this program's.
set -euo pipefail

CHECKOUT=$(git -C "$(dirname "$0")" rev-parse --show-toplevel 2>/dev/null) || CHECKOUT=$PWD
NAME=${STACKWRIGHT_ROOTLESS_USER:-stackwright}
PLACE=${STACKWRIGHT_ROOTLESS_PLACE:-/var/tmp}

as_root() {
    local clone fresh home
    id -u "$NAME" >/dev/null 2>&1 || useradd --create-home --base-dir "$PLACE" --shell /bin/bash "$NAME"
    home=$(getent passwd "$NAME" | cut -d: -f6)
    "$CHECKOUT/scripts/engine.sh" --rootless --for "$NAME"
    clone=$home/checkout fresh=$home/checkout.new
    rm -rf "$fresh"
    git clone --quiet --no-hardlinks "$CHECKOUT" "$fresh"
    if [[ -d $clone/out ]]; then mv "$clone/out" "$fresh/out"; fi
    rm -rf "$clone"
    mv "$fresh" "$clone"
    if [[ -e $CHECKOUT/.venv ]]; then ln -s "$(realpath "$CHECKOUT/.venv")" "$clone/.venv"; fi
    chown -R "$NAME:" "$clone"
    cd "$clone"
    exec runuser -u "$NAME" -- env -u XDG_RUNTIME_DIR -u DOCKER_HOST "HOME=$home" tests/e2e/as_user.sh "$@"
}

(($#)) || { echo "usage: as_user.sh COMMAND..." >&2 && exit 2; }
((EUID != 0)) || as_root "$@"
variables=$("$CHECKOUT/scripts/engine.sh" --rootless)
eval "$variables"
exec "$@"
