# shellcheck shell=bash
# An engine of an ordinary user, for scripts/engine.sh --rootless, which brings all else: Podman from the
# distribution, with its Docker-compatible socket. Root installs packages, gives the user ids, and opens devices;
# nothing else of it needs root. Lines for the caller's shell go to stdout, all others to stderr.
# A container without privileges, such as a job of Kubernetes, is given less: scripts/confined.sh.

# crun refuses a host that has cgroups of both versions, and such is each without the second alone.
if confined; then
    RUNTIME=crun # which alone works without cgroups
    readonly ROOTLESS_PROGRAMS=(podman buildah "$RUNTIME") DEVICES=()
else
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then RUNTIME=crun; else RUNTIME=runc; fi
    readonly ROOTLESS_PROGRAMS=(podman buildah "$RUNTIME" newuidmap pasta nft)
    readonly DEVICES=(/dev/net/tun /dev/fuse) # of a container's network, and of what mounts a SIF
fi
readonly RUNTIME IDS=65536
readonly OLDEST_PODMAN=5 # OLDEST_PODMAN of stackwright/engines/kinds.py

rootless_usage() {
    cat <<'END'
usage: eval "$(engine.sh --rootless)"
       engine.sh --rootless --check | --for USER

Brings up an engine without root, for the user who calls it, and prints the variables by which programs find it.
Where packages, ids or devices are missing it needs root for these (sudo), or says what root is to run.
In a container without privileges it is for its root as well (docs/rootless.md).

  --check     change nothing; exit 0 when everything is there, 1 when not, and say what is missing
  --for USER  as root: install what is missing and give USER ids; start nothing
END
}

podman_version() { { podman --version 2>/dev/null || true; } | sed -n 's/^podman version //p'; }

# Docker's own client: Podman has a program of this name, which takes other words.
docker_client() { [[ $({ docker --version || true; } 2>/dev/null) == "Docker version"* ]]; }

ids_of() { # how many ids file $1 gives user $2, by name or number
    awk -F: -v name="$2" -v number="$(id -u "$2")" \
        '$1 == name || $1 == number {sum += $3} END {print sum + 0}' "$1" 2>/dev/null || echo 0
}

rootless_look() { # user: sets WANTED (packages), LACKS_IDS, CLOSED (devices) and MISSING (words for people)
    local program version device
    WANTED=() MISSING=() LACKS_IDS='' CLOSED=()
    for program in "${ROOTLESS_PROGRAMS[@]}"; do
        PATH=$PATH:/usr/sbin:/sbin have "$program" || MISSING+=("$program")
    done
    version=$(podman_version)
    [[ -z $version || ${version%%.*} -ge $OLDEST_PODMAN ]] || MISSING+=("podman >= $OLDEST_PODMAN (this one is $version)")
    docker_client || MISSING+=("a docker client")
    have mmdebstrap || MISSING+=("mmdebstrap")
    ((${#MISSING[@]} == 0)) ||
        WANTED=(podman buildah "$RUNTIME" uidmap passt nftables catatonit docker-cli mmdebstrap debian-archive-keyring)
    python3 -c 'import ensurepip, venv' 2>/dev/null || { MISSING+=("python3's venv") && WANTED+=(python3-venv); }
    if [[ $1 != root ]] && (($(ids_of /etc/subuid "$1") < IDS || $(ids_of /etc/subgid "$1") < IDS)); then
        LACKS_IDS=yes MISSING+=("$IDS ids of $1 in /etc/subuid and /etc/subgid")
    fi
    for device in "${DEVICES[@]}"; do
        if [[ ! -c $device || $(stat -c %a "$device") != *6 ]]; then
            CLOSED+=("$device") && MISSING+=("$device for every user")
        fi
    done
}

rootless_prepare() { # user
    local first device
    if ((${#WANTED[@]})); then
        # shellcheck disable=SC2034  # scripts/lib.sh reads both
        PINNED='^(podman|buildah|crun|runc|passt|docker-cli|conmon|netavark|aardvark-dns|golang-github-containers-.*)$'
        HAS_ENGINE_TO_COME=''
        install_packages >&2
    fi
    if [[ -n $LACKS_IDS ]]; then
        become_root "give $1 subordinate ids"
        first=$(awk -F: '{end = $2 + $3; if (end > most) most = end} END {print most < 100000 ? 100000 : most}' \
            /etc/subuid /etc/subgid 2>/dev/null || echo 100000)
        act usermod --add-subuids "$first-$((first + IDS - 1))" --add-subgids "$first-$((first + IDS - 1))" "$1" >&2
    fi
    for device in "${CLOSED[@]}"; do
        become_root "let users open $device"
        [[ -c $device ]] || die "there is no $device" "as root: modprobe tun fuse"
        act chmod 666 "$device" >&2 # as udev does
    done
}

# Where a login made none, programs and the engine need the same one, or each has containers of its own.
runtime_folder() {
    if [[ -z ${XDG_RUNTIME_DIR:-} || ! -w ${XDG_RUNTIME_DIR:-} ]]; then
        XDG_RUNTIME_DIR=${TMPDIR:-/tmp}/stackwright-run-$(id -u)
        mkdir -p "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
        [[ -O $XDG_RUNTIME_DIR ]] || die "$XDG_RUNTIME_DIR is another user's" "set XDG_RUNTIME_DIR to a folder of yours"
    fi
    export XDG_RUNTIME_DIR
}

# For the service and for all that is started beside it.
rootless_settings() { # prints them as lines of a shell
    local file=$XDG_RUNTIME_DIR/podman/stackwright.conf
    printf 'export XDG_RUNTIME_DIR=%q\nexport DOCKER_HOST=%q\n' "$XDG_RUNTIME_DIR" "$ROOTLESS_SOCKET"
    ! confined || { confined_settings; return; }
    [[ $RUNTIME == runc ]] || return 0
    printf '[engine]\nruntime = "runc"\n' >"$file"
    printf 'export CONTAINERS_CONF_OVERRIDE=%q PODMAN_IGNORE_CGROUPSV1_WARNING=1\n' "$file"
}

rootless_answers() { # sets SERVER
    SERVER=$(timeout 20 docker --host "$ROOTLESS_SOCKET" info --format '{{.ServerVersion}}' 2>/dev/null || true)
    [[ -n $SERVER ]]
}

rootless_start() {
    local log second process
    log=$XDG_RUNTIME_DIR/podman/stackwright.log
    note "will start Podman's service without an init system; it goes on when this ends; its log: $log"
    # Not from a folder that may be removed: no container starts from there any more.
    setsid env --chdir=/ podman system service --time=0 "$ROOTLESS_SOCKET" </dev/null >>"$log" 2>&1 &
    process=$!
    for ((second = 0; second < WAIT_SECONDS; second++)); do
        ! rootless_answers || return 0
        [[ -d /proc/$process ]] || break
        sleep 1
    done
    tail -n 3 "$log" >&2
    die "the engine did not start" "read $log"
}

rootless() { # options
    local user check='' variables
    user=$(id -un)
    case ${1:-} in
        '') ;;
        --check) check=yes ;;
        --for) user=${2:-} ;;
        -h | --help) rootless_usage && exit 0 ;;
        *) rootless_usage >&2 && exit 2 ;;
    esac
    id -u -- "$user" >/dev/null 2>&1 || die "there is no user '$user'" "as root: useradd --create-home NAME"
    [[ $user != root ]] || confined ||
        die "an engine without root is an ordinary user's" "run it as that user, or with --for USER"
    rootless_look "$user"
    if ((${#MISSING[@]})); then
        printf 'engine: missing: %s\n' "${MISSING[@]}" >&2
        [[ -z $check ]] || exit 1
        ((EUID == 0)) || have sudo ||
            die "root is needed for what is missing" "as root: scripts/engine.sh --rootless --for $user"
        rootless_prepare "$user"
    fi
    if [[ ${1:-} == --for ]]; then
        note "ready for $user, who runs: eval \"\$(scripts/engine.sh --rootless)\""
        exit 0
    fi
    ! confined || confined_can_build
    runtime_folder
    mkdir -p "$XDG_RUNTIME_DIR/podman"
    ROOTLESS_SOCKET=unix://$XDG_RUNTIME_DIR/podman/podman.sock
    variables=$(rootless_settings)
    eval "$variables"
    if ! rootless_answers; then
        [[ -z $check ]] || { note "missing: an engine that answers at $ROOTLESS_SOCKET" && exit 1; }
        rootless_start
    fi
    if confined; then confined_ready; else note "ready: Podman $SERVER, rootless"; fi
    printf '%s\n' "$variables"
}
