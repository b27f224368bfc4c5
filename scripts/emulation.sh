#!/usr/bin/env bash
# Sees to it that this host runs programs of 64-bit Arm: by its own CPU, or by an emulator (QEMU) that the kernel
# starts for them.
#
# A container does not have the emulator's file, so that the kernel has to hold it open (flag F of binfmt_misc).
# Where no init system registers it, as in a container that is a host, this does.
set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

# QEMU 7.2 ends with a segmentation fault when PyTorch 2.15 is imported, and 10.0 does not. What is between them was
# not tried, and is taken where it is there already.
readonly OLDEST=8
readonly NEEDED="QEMU's static user mode, $OLDEST or later"
readonly FAILED=6               # EngineError.exit_code of stackwright/core/errors.py
readonly HANDLERS=/proc/sys/fs/binfmt_misc
readonly HANDLER=qemu-aarch64
readonly LINE=/usr/lib/binfmt.d/$HANDLER.conf # of the distribution's package: the head of the files, the emulator, F

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

note() { printf '%s\n' "$*" >&2; }
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

runs() { # whether the kernel starts such programs, in containers too, with an emulator that suffices
    local file emulator
    [[ $(uname -m) != aarch64 ]] || return 0
    for file in "$HANDLERS"/*; do
        [[ ${file##*/} != register && -r $file && -f $file ]] || continue
        if grep -qx enabled "$file" && grep -q '^flags: .*F' "$file" && grep -q '^magic 7f454c4602.*b700$' "$file"; then
            emulator=$(sed -n 's/^interpreter //p' "$file")
            recent "$emulator" && return 0
        fi
    done
    return 1
}

recent() { # emulator: not an old one; one that does not say, such as another container's, is taken
    local version
    version=$(timeout 10 "$(readlink -f "$1")" --version 2>/dev/null | sed -n '1s/^qemu-[a-z0-9_]* version \([0-9]*\)\..*/\1/p')
    OLD=${version:+QEMU $version}
    [[ -z $version || $version -ge $OLDEST ]]
}

install_emulator() {
    # shellcheck disable=SC2034  # scripts/lib.sh reads all of them
    WANTED=(qemu-user-static) PINNED='^qemu-user.*$' SUITES=(trixie) \
        MISSED="there is no emulator" BY_HAND=$NEEDED HAS_ENGINE_TO_COME=''
    # What the package of trixie depends on has to come from there too. Ubuntu's own does not go together with these.
    [[ $(os_release ID) != debian ]] || WANTED+=(qemu-user qemu-user-binfmt)
    install_packages
}

register() {
    [[ -e $HANDLERS/register ]] || act mount -t binfmt_misc binfmt_misc "$HANDLERS"
    # What was registered without the flag is in the way of the same name.
    [[ ! -e $HANDLERS/$HANDLER ]] || act sh -c "echo -1 >$HANDLERS/$HANDLER"
    act sh -c "cat $LINE >$HANDLERS/register"
}

main() {
    MODE=act SUDO=() OLD=''
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
    [[ $MODE != check ]] || { say "missing: an emulator for programs of 64-bit Arm${OLD:+, later than $OLD}"; exit 1; }
    become_root "tell the kernel of an emulator"
    if [[ -e $LINE ]] && recent "$(cut -d: -f7 "$LINE")"; then
        runs || register
    else
        install_emulator
        register # the kernel still holds the file of an old one
    fi
    [[ $MODE != dry-run ]] || { say "dry run: nothing was changed"; exit 0; }
    runs || die "${OLD:+$OLD is too old; }the kernel took no emulator" "install $NEEDED, and read $HANDLERS/$HANDLER"
    say "ready: programs of 64-bit Arm run here"
}

main "$@"
