#!/usr/bin/env bash
# Sees to it that a container engine answers: Docker >= 23 with buildx, and mmdebstrap beside it.
#
# It runs before any Python environment exists, so it needs only bash, coreutils, util-linux and python3.
set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
# shellcheck source=scripts/confined.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/confined.sh"
# shellcheck source=scripts/rootless.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/rootless.sh"

readonly OLDEST_SERVER=23       # the first engine whose BuildKit has COPY --link and cache mounts by default
readonly WAIT_SECONDS=90
readonly NO_ENGINE=6            # EngineError.exit_code of stackwright/core/errors.py
readonly DAEMON_JSON=${STACKWRIGHT_DAEMON_JSON:-/etc/docker/daemon.json}
readonly SOCKET=unix:///var/run/docker.sock
readonly PID_FILE=${STACKWRIGHT_DOCKER_PIDFILE:-/var/run/docker.pid}
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

usage() {
    cat <<'END'
usage: engine.sh [--check | --dry-run | --rootless ...]

Uses a Docker engine >= 23 with buildx that answers; starts one that is installed; otherwise, on Debian
and Ubuntu as root or with sudo, installs one from the distribution and starts it.

  --check     change nothing; exit 0 when everything is there, 1 when not, and say what is missing
  --dry-run   change nothing; print what would be done
  --rootless  an engine of an ordinary user instead; --rootless --help says more

Environment:
  DOCKER_HOST               the engine to ask, as for docker itself
  STACKWRIGHT_DOCKER_ROOT   where an engine that is started here keeps its data (dockerd --data-root)
  STACKWRIGHT_DOCKERD_FLAGS more options for a dockerd that is started here
  STACKWRIGHT_DAEMON_JSON   its configuration (/etc/docker/daemon.json)
  STACKWRIGHT_DOCKER_PIDFILE its process (/var/run/docker.pid)
  STACKWRIGHT_APT_MIRROR    the mirror to install from, instead of the one in the host's apt sources

Exit codes: 0 usable, 1 something is missing (--check), 2 wrong command line, 6 no engine can be had.
END
}

say() { printf 'engine: %s\n' "$*"; }
note() { printf 'engine: %s\n' "$*" >&2; }
die() { # cause, next step
    printf 'engine: %s\n  next: %s\n' "$1" "$2" >&2
    exit "$NO_ENGINE"
}

# --- what is there ---------------------------------------------------------------------------------

# Every docker on the PATH and in the usual places: the first one may be a bare client that has no buildx.
clients() {
    { type -ap docker || true; printf '%s\n' /usr/bin/docker /usr/local/bin/docker; } | awk '!seen[$0]++'
}

find_client() { # sets CLIENT to the first docker with buildx, or to nothing
    local program
    CLIENT=
    while read -r program; do
        if [[ -x $program ]] && timeout 20 "$program" buildx version >/dev/null 2>&1; then
            CLIENT=$program
            return
        fi
    done < <(clients)
}

server_version() { # of the engine that answers the program $1, or nothing
    timeout 20 "$1" info --format '{{.ServerVersion}}' 2>/dev/null || true
}

any_server_version() { # asks with any client, with or without buildx
    local program version
    while read -r program; do
        [[ -x $program ]] || continue
        version=$(server_version "$program")
        if [[ -n $version ]]; then
            echo "$version"
            return
        fi
    done < <(clients)
}

recent() { # is version $1 recent enough?
    [[ ${1%%.*} =~ ^[0-9]+$ ]] && ((${1%%.*} >= OLDEST_SERVER))
}

installed_engine() { # version of the dockerd on the PATH, or nothing
    { dockerd --version 2>/dev/null || true; } | sed -n 's/^Docker version \([^,]*\),.*/\1/p'
}

have() { command -v "$1" >/dev/null 2>&1; }

look() { # sets CLIENT, SERVER, and MISSING (an array of words for people)
    MISSING=()
    find_client
    [[ -n $CLIENT ]] || MISSING+=("a docker client with buildx")
    if [[ -n $CLIENT ]]; then SERVER=$(server_version "$CLIENT"); else SERVER=$(any_server_version); fi
    if [[ -z $SERVER ]]; then
        MISSING+=("an engine that answers")
    elif ! recent "$SERVER"; then
        MISSING+=("an engine >= $OLDEST_SERVER (this one is $SERVER)")
    fi
    have mmdebstrap || MISSING+=("mmdebstrap")
    [[ -e $KEYRING ]] || MISSING+=("the keys of the Debian archive")
    python3 -c 'import ensurepip, venv' 2>/dev/null || MISSING+=("python3's venv")
}

# --- how to become root ----------------------------------------------------------------------------

become_root() { # sets SUDO; $1 says what for
    SUDO=()
    ((EUID == 0)) && return
    if have sudo && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
        SUDO=(sudo)
    else
        die "root is needed to $1" "run it again as root, or as a user who may use sudo"
    fi
}

act() { # shows a command, then runs it, as root and not in a dry run
    printf '+ %s\n' "$*"
    [[ $MODE == dry-run ]] || "${SUDO[@]}" "$@"
}

# --- the daemon's configuration --------------------------------------------------------------------

# Merges the JSON text $1 into daemon.json. What is there stays as it is: an own setting always wins.
merge_settings() {
    local merged
    merged=$(mktemp)
    python3 - "$DAEMON_JSON" "$1" >"$merged" <<'END' || die "$DAEMON_JSON is not valid JSON" "mend that file"
import json, pathlib, sys

def merge(mine, new):
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(mine.get(key), dict):
            merge(mine[key], value)
        else:
            mine.setdefault(key, value)
    return mine

file = pathlib.Path(sys.argv[1])
try:
    mine = json.loads((file.read_text() if file.exists() else "") or "{}")
except ValueError:
    sys.exit(1)
print(json.dumps(merge(mine, json.loads(sys.argv[2])), indent=4))
END
    if same_json "$merged"; then
        rm "$merged"
        return 1
    fi
    say "changes to $DAEMON_JSON:"
    diff -u "$(current_settings)" --label "$DAEMON_JSON" --label "$DAEMON_JSON (new)" "$merged" || true
    if [[ -s $DAEMON_JSON ]]; then
        act cp -p "$DAEMON_JSON" "$DAEMON_JSON.before-stackwright.$(date -u +%Y%m%dT%H%M%SZ)"
    fi
    act install -D -m 644 "$merged" "$DAEMON_JSON"
    rm "$merged"
}

current_settings() { if [[ -e $DAEMON_JSON ]]; then echo "$DAEMON_JSON"; else echo /dev/null; fi; }

same_json() {
    python3 - "$1" "$(current_settings)" <<'END'
import json, pathlib, sys

new, old = (pathlib.Path(name).read_text() for name in sys.argv[1:])
sys.exit(json.loads(new) != json.loads(old or "{}"))
END
}

# overlay2 because an image's layers must be folders that can be mounted when it is converted to SIF.
# cdi must be asked for before engine 28.
settings_for_a_new_engine() {
    local settings='{"features": {"cdi": true, "containerd-snapshotter": false}, "storage-driver": "overlay2"}'
    merge_settings "$settings" || true
}

# An engine learns of a runtime when it is told to reload, and of CDI specifications by itself.
gpu_runtime() {
    local cdi
    have nvidia-container-runtime || have nvidia-ctk || return 0
    ! knows_gpu || return 0
    say "this host has NVIDIA's container runtime, and the engine does not know it"
    [[ $MODE != check ]] || return 1
    become_root "tell the engine of NVIDIA's container runtime"
    if have nvidia-container-runtime && merge_settings \
        "{\"runtimes\": {\"nvidia\": {\"path\": \"$(command -v nvidia-container-runtime)\", \"args\": []}}}"; then
        reload_engine
    fi
    cdi=$(spec_folders | head -n 1)
    if have nvidia-ctk && [[ -n $cdi ]]; then
        act mkdir -p "$cdi"
        act nvidia-ctk cdi generate "--output=$cdi/nvidia.yaml" ||
            note "nvidia-ctk wrote no CDI specification: is the driver loaded?"
    fi
    [[ $MODE == dry-run ]] || knows_gpu || note "the engine still does not know it: restart the engine"
}

spec_folders() { "$CLIENT" info --format '{{range .CDISpecDirs}}{{println .}}{{end}}' 2>/dev/null | grep . || true; }

knows_gpu() {
    local folder
    [[ $("$CLIENT" info --format '{{json .Runtimes}}') != *'"nvidia"'* ]] || return 0
    while read -r folder; do
        if grep -qsF nvidia.com/gpu "$folder"/*; then return 0; fi
    done < <(spec_folders)
    return 1
}

reload_engine() {
    if [[ -d /run/systemd/system && $PID_FILE == /var/run/docker.pid && -z ${DOCKER_HOST:-} ]]; then
        act systemctl reload docker
    elif [[ -s $PID_FILE && (-z ${DOCKER_HOST:-} || -n ${STACKWRIGHT_DOCKER_PIDFILE:-}) ]]; then
        act kill -HUP "$(cat "$PID_FILE")"
        [[ $MODE == dry-run ]] || sleep 1 # the engine says nothing when it has read its configuration
    else
        note "restart the engine so that it reads $DAEMON_JSON"
    fi
}

# --- start -----------------------------------------------------------------------------------------

start_engine() {
    local log process flags=()
    become_root "start the engine"
    if [[ -d /run/systemd/system && -z ${STACKWRIGHT_DOCKER_ROOT:-}${STACKWRIGHT_DOCKERD_FLAGS:-} ]]; then
        say "will start the engine by systemd"
        act systemctl start docker
    else
        log=/var/log/stackwright-dockerd.log
        [[ -n ${STACKWRIGHT_DOCKER_ROOT:-} ]] && flags+=(--data-root "$STACKWRIGHT_DOCKER_ROOT")
        read -ra more <<<"${STACKWRIGHT_DOCKERD_FLAGS:-}"
        flags+=("${more[@]}")
        say "will start the engine without an init system; it goes on when this ends; its log: $log"
        printf '+ dockerd %s\n' "${flags[*]}"
        [[ $MODE == dry-run ]] && return
        # shellcheck disable=SC2016  # it is the inner shell that expands them
        "${SUDO[@]}" setsid bash -c 'exec dockerd "${@:2}" >>"$1" 2>&1' dockerd "$log" "${flags[@]}" \
            </dev/null >/dev/null 2>&1 &
        process=$!
    fi
    [[ $MODE == dry-run ]] || wait_for_engine "${log:-}" "${process:-1}"
}

wait_for_engine() { # log file or nothing, process whose end means failure
    local second
    find_client
    for ((second = 0; second < WAIT_SECONDS; second++)); do
        SERVER=$("${SUDO[@]}" "${CLIENT:-docker}" info --format '{{.ServerVersion}}' 2>/dev/null || true)
        [[ -z $SERVER ]] || return 0
        [[ -d /proc/$2 ]] || break
        sleep 1
    done
    [[ -z $1 ]] || tail -n 3 "$1" >&2
    die "the engine did not start" "read ${1:-the output of journalctl -u docker}"
}

# From the next login on the group lets a user in; until then it is the owner of the socket.
let_user_in() {
    local user
    ((EUID != 0)) || return 0
    [[ -z $(server_version "$CLIENT") ]] || return 0
    become_root "let you use the engine"
    user=$(id -un)
    say "will let $user use the engine, which is as powerful as root:"
    act usermod -aG docker "$user"
    act chown "$user" "${SOCKET#unix://}"
    [[ -n $(server_version "$CLIENT") ]] ||
        die "the engine runs, and $user may use it only from the next login" "log in again, then run it again"
}

# --- main ------------------------------------------------------------------------------------------

report_check() {
    if ((${#MISSING[@]})); then
        printf 'engine: missing: %s\n' "${MISSING[@]}"
        exit 1
    fi
    gpu_runtime || exit 1
    say "ready: $CLIENT, engine $SERVER"
}

bring_up() {
    local engine
    WANTED=() HAS_ENGINE_TO_COME=
    if [[ -n $SERVER ]] && ! recent "$SERVER"; then
        die "the engine that answers is $SERVER, and $OLDEST_SERVER is needed" "upgrade it, or stop it and run this again"
    fi
    if [[ -z $SERVER && ${DOCKER_HOST:-$SOCKET} != "$SOCKET" && -z ${STACKWRIGHT_DOCKERD_FLAGS:-} ]]; then
        die "nothing answers at DOCKER_HOST=$DOCKER_HOST" "start that engine, or unset DOCKER_HOST"
    fi
    if [[ -z $SERVER ]] && confined; then
        die "Docker does not start in a container without privileges" "Podman does: scripts/engine.sh --rootless"
    fi
    engine=$(installed_engine)
    if [[ -z $SERVER ]] && { [[ -z $engine ]] || ! recent "$engine"; }; then
        WANTED+=(docker.io docker-cli docker-buildx containerd)
        HAS_ENGINE_TO_COME=yes
    elif [[ -z $CLIENT ]]; then
        WANTED+=(docker-cli docker-buildx)
    fi
    have mmdebstrap || WANTED+=(mmdebstrap)
    [[ -e $KEYRING ]] || WANTED+=(debian-archive-keyring)
    python3 -c 'import ensurepip, venv' 2>/dev/null || WANTED+=(python3-venv)
    if ((${#WANTED[@]})); then install_packages; fi
    if [[ -z $SERVER ]]; then
        find_client
        [[ -n $CLIENT ]] && SERVER=$(server_version "$CLIENT")
        [[ -n $SERVER ]] || start_engine
    fi
}

main() {
    MODE=act SUDO=()
    case ${1:-} in
        '') ;;
        --check) MODE=check ;;
        --dry-run) MODE=dry-run ;;
        --rootless) rootless "${@:2}"; exit 0 ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    look
    [[ $MODE == check ]] && { report_check; exit 0; }
    if ((${#MISSING[@]})); then
        say "missing: $(IFS=,; echo "${MISSING[*]}")"
        bring_up
        [[ $MODE == dry-run ]] && { say "dry run: nothing was changed"; exit 0; }
        find_client
        [[ -n $CLIENT ]] || die "no docker client with buildx was found after the installation" "report this"
        let_user_in
    fi
    gpu_runtime || true
    say "ready: $CLIENT, engine $SERVER"
}

main "$@"
