#!/usr/bin/env bash
# unprivileged.sh PLACE COMMAND...: runs a command in a container without privileges, as a
# Kubernetes job is one, in a clean clone of HEAD, where Podman's service builds.
#
#   root      root with seven capabilities, no new privileges, and a volume for images
#   user      an ordinary user without capabilities, whose newuidmap has its own, and a volume for images
#   copies    as root, without the volume: every layer is a whole copy
#   unmasked  as root, and nothing of /proc is hidden: containers start
#   default   as `docker run` gives it: its profile of seccomp forbids what is needed, and the engine says so
#
# Docker of this host starts the container, whose image is made of Debian 13's packages. The host's certificates
# are mounted into it. Environment: STACKWRIGHT_UNPRIVILEGED_ROOT (folder for the clone and its .venv, which stay
# for the next time; out/unprivileged of the checkout). The command's exit code is this program's.
set -euo pipefail

CHECKOUT=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
FOLDER=${STACKWRIGHT_UNPRIVILEGED_ROOT:-$CHECKOUT/out/unprivileged}
PACKAGES=(ca-certificates podman buildah crun uidmap docker-cli fuse-overlayfs mmdebstrap debian-archive-keyring
    python3 python3-venv git make catatonit libcap2-bin)
# The image is another one when its packages are, or what is done to them.
IMAGE=stackwright-test/unprivileged:$(sha256sum <"$0" | cut -c1-12)

die() { printf 'unprivileged: %s\n' "$*" >&2; exit 1; }

mirror() {
    "$CHECKOUT/.venv/bin/python" -c 'if True:
        from stackwright.host.runner import Runner
        from stackwright.host.site import settings
        print(settings.apt_mirror(Runner()) or "")'
}

# An ordinary user can give a namespace ids by a newuidmap that has capabilities of its own; one that becomes root,
# as Debian has it, is of another user than the namespace, and may not. Nothing of this site stays in the image.
make_image() {
    docker image inspect "$IMAGE" >/dev/null 2>&1 && return
    # shellcheck disable=SC2016  # the dollar is mmdebstrap's
    mmdebstrap --quiet --variant=minbase "--include=$(IFS=,; echo "${PACKAGES[*]}")" \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --customize-hook='rm -f $1/etc/apt/sources.list $1/etc/resolv.conf $1/etc/hostname' \
        trixie - "deb $MIRROR trixie main" | docker import - "$IMAGE-setuid" >/dev/null
    docker build --quiet --tag "$IMAGE" - >/dev/null <<END
FROM $IMAGE-setuid
RUN --network=none useradd --create-home --uid 1000 --shell /bin/bash builder \
    && chmod u-s /usr/bin/newuidmap /usr/bin/newgidmap \
    && setcap cap_setuid=ep /usr/bin/newuidmap && setcap cap_setgid=ep /usr/bin/newgidmap
END
    docker image rm "$IMAGE-setuid" >/dev/null
}

clone() { # user
    local fresh=$FOLDER/checkout.new
    mkdir -p "$FOLDER"
    rm -rf "$fresh"
    git clone --quiet --no-hardlinks "$CHECKOUT" "$fresh"
    if [[ -d $FOLDER/checkout/.venv ]]; then mv "$FOLDER/checkout/.venv" "$fresh/.venv"; fi
    rm -rf "$FOLDER/checkout"
    mv "$fresh" "$FOLDER/checkout"
    chown -R "$1" "$FOLDER/checkout"
}

options() { # prints them, one in a line
    local add=(SETUID SETGID SETFCAP CHOWN DAC_OVERRIDE FOWNER SYS_CHROOT)
    local open=(--security-opt=seccomp=unconfined --security-opt=apparmor=unconfined)
    local root=(--user=0 --cap-drop=ALL "${add[@]/#/--cap-add=}" --security-opt=no-new-privileges)
    case $PLACE in
        root) printf '%s\n' "${root[@]}" "${open[@]}" --volume=/var/lib/containers ;;
        copies) printf '%s\n' "${root[@]}" "${open[@]}" ;;
        unmasked) printf '%s\n' "${root[@]}" "${open[@]}" --security-opt=systempaths=unconfined \
            --volume=/var/lib/containers ;;
        user) printf '%s\n' --user=1000 --cap-drop=ALL --cap-add=SETUID --cap-add=SETGID "${open[@]}" \
            --env=HOME=/home/builder "--volume=$FOLDER/images:/home/builder/.local/share/containers" ;;
        default) ;;
        *) die "there is no place '$PLACE'" ;;
    esac
}

site() { # variables that describe a site, for the container
    local name
    printf -- '--env=STACKWRIGHT_APT_MIRROR=%s\n' "$MIRROR"
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL CI; do
        [[ -z ${!name:-} ]] || printf -- '--env=%s=%s\n' "$name" "${!name}"
    done
    for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE; do
        printf -- '--env=%s=/etc/ssl/certs/ca-certificates.crt\n' "$name"
    done
}

# shellcheck disable=SC2016  # the shell in the container expands them
readonly INSIDE='
set -euo pipefail
variables=$(scripts/engine.sh --rootless)
eval "$variables"
scripts/env.sh
exec "$@"
'

(($# > 1)) || die "usage: unprivileged.sh PLACE COMMAND..."
PLACE=$1
shift
MIRROR=${STACKWRIGHT_APT_MIRROR:-$(mirror)}
BUNDLE=$(realpath "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}")
make_image
mapfile -t OPTIONS < <(options)
OWNER=0
[[ $PLACE != user ]] || OWNER=1000
clone "$OWNER"
if [[ $PLACE == user ]]; then
    rm -rf "$FOLDER/images"
    install -d -o 1000 -g 1000 "$FOLDER/images"
fi
mapfile -t SITE < <(site)
CODE=0
docker run --rm --init "${OPTIONS[@]}" "${SITE[@]}" --volume "$FOLDER/checkout:/srv/stackwright" --workdir /srv/stackwright \
    --volume "$BUNDLE:/etc/ssl/certs/ca-certificates.crt:ro" "$IMAGE" bash -c "$INSIDE" unprivileged "$@" || CODE=$?
[[ $PLACE != user ]] || rm -rf "$FOLDER/images"
exit "$CODE"
