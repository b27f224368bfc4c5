#!/usr/bin/env bash
# Sees to it that this host runs programs of 64-bit Arm: by its own CPU, or by an emulator (QEMU) that the kernel
# starts for them.
#
# A container does not have the emulator's file, so that the kernel has to hold it open (flag F of binfmt_misc).
# Where no init system registers it, as in a container that is a host, this does.
set -euo pipefail

readonly FAILED=6               # EngineError.exit_code of stackwright/core/errors.py
readonly HANDLERS=/proc/sys/fs/binfmt_misc
readonly NAME=qemu-aarch64
readonly LINE=/usr/lib/binfmt.d/$NAME.conf # of the distribution's package: the head of the files, the emulator, F

usage() {
    cat <<'END'
usage: emulation.sh [--check | --dry-run]

Lets this host run programs of 64-bit Arm (linux/arm64), if its own CPU does not: installs QEMU's user mode from
the distribution, on Debian and Ubuntu as root or with sudo, and registers it with the kernel.

  --check     change nothing; exit 0 when such programs run, 1 when not
  --dry-run   change nothing; print what would be done

Exit codes: 0 they run, 1 they do not (--check), 2 wrong command line, 6 they cannot be made to run.
END
}

say() { printf 'emulation: %s\n' "$*"; }
die() { # cause, next step
    printf 'emulation: %s\n  next: %s\n' "$1" "$2" >&2
    exit "$FAILED"
}
have() { command -v "$1" >/dev/null 2>&1; }

become_root() { # what for
    ((EUID != 0)) || return 0
    have sudo || die "only root can $1" "run it as root"
    SUDO=(sudo)
}

act() { # runs a command as root and shows it, or only shows it in a dry run
    printf '+ %s\n' "$*"
    [[ $MODE == dry-run ]] || "${SUDO[@]}" "$@"
}

runs() { # whether the kernel starts such programs, in containers too
    local file
    [[ $(uname -m) != aarch64 ]] || return 0
    for file in "$HANDLERS"/*; do
        [[ ${file##*/} != register && -r $file && -f $file ]] || continue
        if grep -qx enabled "$file" && grep -q '^flags: .*F' "$file" && grep -q '^magic 7f454c4602.*b700$' "$file"; then
            return 0
        fi
    done
    return 1
}

install_emulator() {
    have apt-get || die "this host has no apt to install an emulator with" \
        "install QEMU's static user mode with this host's own tools, and register it with binfmt_misc, flag F"
    say "will install qemu-user-static"
    act apt-get -qq update
    act env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends qemu-user-static
}

register() {
    [[ -e $HANDLERS/register ]] || act mount -t binfmt_misc binfmt_misc "$HANDLERS"
    # What was registered without the flag is in the way of the same name.
    [[ ! -e $HANDLERS/$NAME ]] || act sh -c "echo -1 >$HANDLERS/$NAME"
    act sh -c "cat $LINE >$HANDLERS/register"
}

main() {
    MODE=act SUDO=()
    case ${1:-} in
        '') ;;
        --check) MODE=check ;;
        --dry-run) MODE=dry-run ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    if runs; then
        say "ready: programs of 64-bit Arm run here"
        exit 0
    fi
    [[ $MODE != check ]] || { say "missing: an emulator for programs of 64-bit Arm"; exit 1; }
    become_root "tell the kernel of an emulator"
    [[ -e $LINE ]] || install_emulator
    runs || register
    [[ $MODE != dry-run ]] || { say "dry run: nothing was changed"; exit 0; }
    runs || die "the kernel took no emulator" "read $HANDLERS/$NAME"
    say "ready: programs of 64-bit Arm run here"
}

main "$@"
