#!/usr/bin/env bash
# bare_host.sh [--out DIR] COMMAND...: runs a command in a clean clone of this checkout on a bare Debian or
# Ubuntu host.
#
# The host is what `mmdebstrap --variant=minbase` makes plus git, make, python3 and ca-certificates: no
# engine, no init system, no sudo, no pip. It lives in a folder, in its own mount, process and network
# namespaces, so that an engine which the command starts in there has its own bridge and its own firewall
# rules, and ends with the command. The engine of the real host goes on undisturbed.
#
#   --out DIR  the clone's out/ is this folder, which is kept
#
# Environment: STACKWRIGHT_BARE_SUITE (bookworm; one of Ubuntu's needs STACKWRIGHT_UBUNTU_MIRROR, one of Debian's
# STACKWRIGHT_APT_MIRROR where this host is none),
# STACKWRIGHT_BARE_ROOT (folder to make the host in, /var/tmp),
# STACKWRIGHT_BARE_CACHE (folder for the host's tarball, out/cache of the checkout).
# The command's exit code is this program's.
set -euo pipefail

SUITE=${STACKWRIGHT_BARE_SUITE:-bookworm}
CHECKOUT=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
CACHE=${STACKWRIGHT_BARE_CACHE:-$CHECKOUT/out/cache}
ROOT='' NETNS='' OUT=''

die() { printf 'bare_host: %s\n' "$*" >&2; exit 1; }

# --- from the host's own configuration: mirror, certificates, proxies ------------------------------

is_ubuntu() { [[ " jammy noble resolute " == *" $SUITE "* ]]; }

sources() { # apt lines of the suite, from the mirrors that this host uses
    local codename
    if is_ubuntu; then
        [[ -n ${STACKWRIGHT_UBUNTU_MIRROR:-} ]] || die "set STACKWRIGHT_UBUNTU_MIRROR for $SUITE"
        echo "deb $STACKWRIGHT_UBUNTU_MIRROR $SUITE main universe"
        return
    fi
    if [[ -n ${STACKWRIGHT_APT_MIRROR:-} ]]; then
        echo "deb $STACKWRIGHT_APT_MIRROR $SUITE main"
        return
    fi
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016  # the dollars are apt's
    apt-get indextargets --no-release-info 'Created-By: Packages' --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
        awk -v suite="$SUITE" -v host="$codename" '$3 == "main" && index($2, host) == 1 {
            sub(host, suite, $2); line = "deb " $1 " " $2 " main"; if (!seen[line]++) print line }'
}

keyring() { # of Ubuntu's archive, without installing it on a host of Debian's
    local folder=$CACHE/ubuntu-keyring
    if [[ ! -d $folder ]]; then
        SUITE=trixie sources | mmdebstrap --quiet --variant=extract --include=ubuntu-archive-keyring \
            trixie "$folder.$$" - >&2
        mv "$folder.$$" "$folder"
    fi
    echo "--keyring=$folder/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

tarball() { # makes it once a day
    local file=$CACHE/bare-$SUITE.tar keys=()
    if [[ -z $(find "$file" -mtime -1 2>/dev/null) ]]; then
        mkdir -p "$CACHE"
        sources >"$file.sources"
        [[ -s $file.sources ]] || die "no apt source of this host has its own release"
        if is_ubuntu; then
            keys=("$(keyring)")
            [[ -e ${keys[0]#--keyring=} ]] || die "the key of Ubuntu's archive cannot be had"
        fi
        # A mirror that lags has a Release file of the next Debian that is past its date.
        mmdebstrap --quiet --format=tar --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' \
            "${keys[@]}" --include=apt,git,make,python3,ca-certificates \
            "$SUITE" "$file.$$" - <"$file.sources" >&2
        mv "$file.$$" "$file"
    fi
    echo "$file"
}

furnish() { # what a person at this site would have set up on the host
    local bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
    tar -C "$ROOT" -xf "$(tarball)"
    rm -f "$ROOT/etc/resolv.conf"
    cp -L /etc/resolv.conf "$ROOT/etc/resolv.conf"
    sources >"$ROOT/etc/apt/sources.list"
    [[ -s $bundle ]] && cp -L "$bundle" "$ROOT/etc/ssl/certs/ca-certificates.crt"
    echo bare >"$ROOT/etc/hostname"
    printf '127.0.0.1 localhost bare %s\n::1 localhost\n' "$(uname -n)" >"$ROOT/etc/hosts"
    git clone --quiet --no-hardlinks "$CHECKOUT" "$ROOT/srv/stackwright"
}

kept_environment() { # NAME=value, one argument each, of the few variables that describe a site
    local name
    printf '%s\0' HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        "TERM=${TERM:-dumb}"
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL CI \
        SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE "${!STACKWRIGHT_@}"; do
        [[ -n ${!name:-} && $name != STACKWRIGHT_BARE_* ]] || continue
        case $name in
            *CERT* | *BUNDLE*) printf '%s=/etc/ssl/certs/ca-certificates.crt\0' "$name" ;;
            *) printf '%s=%s\0' "$name" "${!name}" ;;
        esac
    done
}

# --- network: a namespace of its own behind this host's address ------------------------------------

free_subnet() { # first two and a half bytes of a /30 that this host has no route to
    local third
    for third in {200..250}; do
        if ! ip -4 address | grep -q "10\.213\.$third\."; then
            echo "10.213.$third"
            return
        fi
    done
    die "no free subnet"
}

rules() { # -I or -D: what lets the namespace out
    local table
    iptables -w -t nat "${1/I/A}" POSTROUTING -s "$SUBNET.0/30" -j MASQUERADE
    for table in -i -o; do iptables -w "$1" FORWARD "$table" "$LINK" -j ACCEPT; done
}

network_up() {
    NETNS=stackwright-bare-$$ LINK=swbare$$ SUBNET=$(free_subnet)
    ip netns add "$NETNS"
    ip link add "${LINK:0:15}" type veth peer name eth0 netns "$NETNS"
    LINK=${LINK:0:15}
    ip address add "$SUBNET.1/30" dev "$LINK"
    ip link set "$LINK" up
    ip -n "$NETNS" link set lo up
    ip -n "$NETNS" address add "$SUBNET.2/30" dev eth0
    ip -n "$NETNS" link set eth0 up
    ip -n "$NETNS" route add default via "$SUBNET.1"
    [[ $(cat /proc/sys/net/ipv4/ip_forward) == 1 ]] || die "set net.ipv4.ip_forward=1 first"
    rules -I
}

clean_up() {
    local code=$?
    trap - EXIT
    if [[ -n $NETNS ]]; then
        rules -D || true
        ip link delete "$LINK" || true
        ip netns delete "$NETNS" || true
    fi
    if [[ -n $ROOT && -d $ROOT ]]; then
        if grep -qF " $ROOT" /proc/self/mountinfo; then
            printf 'bare_host: something is mounted below %s: it is left alone\n' "$ROOT" >&2
        else
            rm -rf --one-file-system "$ROOT"
        fi
    fi
    exit "$code"
}

# --- the host itself -------------------------------------------------------------------------------

# Runs inside the namespaces: every mount made here is gone when the last process in here has ended.
# shellcheck disable=SC2016
readonly INSIDE='
set -euo pipefail
root=$1 out=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys" # of this network namespace, not the outer one
for folder in sys/fs/cgroup dev; do
    mount --rbind "/$folder" "$root/$folder"
    mount --make-rslave "$root/$folder"
done
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/lock"
if [[ -n $out ]]; then
    mkdir -p "$root/srv/stackwright/out"
    mount --bind "$out" "$root/srv/stackwright/out"
fi
cd "$root"
mkdir -p .outside
pivot_root . .outside
cd /srv/stackwright # others than root can read it: some tests are of ordinary users
umount -l /.outside
rmdir /.outside
mapfile -d "" -t site <"/root/.site-environment"
# This shell stays process 1 of the namespace: it reaps what an engine leaves behind.
code=0
env -i "${site[@]}" "$@" || code=$?
exit $code
'

[[ ${1:-} == --out ]] && { OUT=$(realpath "$2"); mkdir -p "$OUT"; shift 2; }
(($#)) || die "usage: bare_host.sh [--out DIR] COMMAND..."
((EUID == 0)) || die "root is needed"
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
ROOT=$(mktemp -d "${STACKWRIGHT_BARE_ROOT:-/var/tmp}/stackwright-bare.XXXXXX")
chmod 755 "$ROOT"
furnish
kept_environment >"$ROOT/root/.site-environment"
enter=()
if command -v ip >/dev/null && command -v iptables >/dev/null; then
    network_up
    enter=(nsenter "--net=/run/netns/$NETNS")
elif [[ -S /var/run/docker.sock ]]; then
    die "an engine runs here: ip and iptables are needed to keep the two apart"
fi
"${enter[@]}" unshare --mount --propagation private --pid --fork --kill-child -- \
    bash -c "$INSIDE" bare_host "$ROOT" "$OUT" "$@"
