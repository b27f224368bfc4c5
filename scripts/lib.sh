# shellcheck shell=bash
# Installs packages for scripts/engine.sh and emulation.sh, which bring say, note, die, have, recent, act,
# become_root.
#
# The host's own package configuration (/etc/apt) is never written: packages come through private apt
# options, a temporary source list and temporary indexes.

PINNED='^(docker.*|containerd)$' # packages that come from the suite that is tried
SUITES=() # of Debian, to try on Debian before the host's own; those of an engine are known here

os_release() { # field $1 of os-release
    # shellcheck source=/dev/null
    (. /etc/os-release && printf '%s' "${!1:-}")
}

private_apt() { # makes WORK, a folder with an apt configuration of its own, and APT, the command
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
    chmod 755 "$WORK" # apt downloads as the user _apt
    mkdir -p "$WORK"/{lists/partial,archives/partial,none}
    touch "$WORK"/{sources.list,preferences}
    APT_PRIVATE=(-o "Dir::State::Lists=$WORK/lists" -o "Dir::Cache::Archives=$WORK/archives"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Update::Post-Invoke-Success::= -qq)
    APT=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get "${APT_PRIVATE[@]}" -o Dpkg::Use-Pty=0
        -o "Dir::Etc::SourceList=$WORK/sources.list" -o "Dir::Etc::SourceParts=$WORK/none"
        -o "Dir::Etc::Preferences=$WORK/preferences" -o "Dir::Etc::PreferencesParts=$WORK/none")
}

# What the host's own sources say, one line for each component: options|address|release|component
host_sources() {
    # shellcheck disable=SC2016  # the dollars are apt's
    apt-get "${APT_PRIVATE[@]}" indextargets --no-release-info 'Created-By: Packages' \
        --format '$(SIGNED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 2>/dev/null | sort -u
}

write_sources() { # for the host's release $1 and, pinned so that nothing else comes from it, the suite $2
    local release=$1 suite=$2 signed uri name component mirror='' mirror_signed=''
    : >"$WORK/sources.list"
    : >"$WORK/preferences"
    while IFS='|' read -r signed uri name component; do
        [[ $name == "$release" || $name == "$release-updates" || $name == "$release-security" ]] || continue
        if [[ $signed == /* ]]; then signed=" signed-by=$signed"; else signed=; fi
        printf 'deb [check-date=yes%s] %s %s %s\n' "$signed" "$uri" "$name" "$component" >>"$WORK/sources.list"
        if [[ $name == "$release" && $component == main ]]; then mirror=$uri mirror_signed=$signed; fi
    done < <(host_sources)
    mirror=${STACKWRIGHT_APT_MIRROR:-$mirror}
    [[ -n $mirror ]] || die "no apt source of this host has the release $release" \
        "give one: STACKWRIGHT_APT_MIRROR=<address of a Debian mirror>"
    [[ $mirror =~ ^[a-z+]+:[^[:space:]\|\"\']+$ ]] || die "not the address of a mirror: $mirror" \
        "set STACKWRIGHT_APT_MIRROR"
    [[ -s $WORK/sources.list ]] || printf 'deb %s %s main\n' "$mirror" "$release" >>"$WORK/sources.list"
    if [[ $suite != "$release" ]]; then
        # Testing's index expires after a week, and a site's own mirror may be older than that. Its
        # signature is checked all the same, and the versions are shown before anything is installed.
        printf 'deb [check-valid-until=no%s] %s %s main\n' "$mirror_signed" "$mirror" "$suite" >>"$WORK/sources.list"
        printf 'Package: *\nPin: release n=%s\nPin-Priority: 50\n' "$suite" >"$WORK/preferences"
    fi
}

# An installation may add packages; it may not remove any, and it may upgrade only the engine's and the emulator's own.
harmless() { # file with the output of apt-get -s
    local action package rest bad=0
    while read -r action package rest; do
        case $action in
            Remv) note "  would remove $package" && bad=1 ;;
            Inst) if [[ $rest == \[* && ! $package =~ ^(docker.*|containerd|runc|tini-static|mmdebstrap|podman|buildah|crun|passt|conmon|netavark|qemu-user.*)$ ]]; then
                note "  would upgrade $package $rest" && bad=1
            fi ;;
        esac
    done <"$1"
    return $bad
}

# Tries a suite without changing anything: sets CHOSEN to the packages, each with its suite.
simulate() { # release, suite
    local name
    write_sources "$1" "$2"
    if ! "${APT[@]}" update >"$WORK/update.log" 2>&1 || grep -q '^\(E\|Err\)' "$WORK/update.log"; then
        refuse "$2" "$(grep -m1 '^\(E\|Err\|W\)' "$WORK/update.log" || tail -n1 "$WORK/update.log")"
        return 1
    fi
    CHOSEN=()
    for name in "${WANTED[@]}"; do
        [[ ! $name =~ $PINNED ]] || name=$name/$2
        CHOSEN+=("$name")
    done
    simulate_chosen "$2" || return 1
    if grep -q '^Inst systemd ' "$WORK/simulation"; then
        CHOSEN+=(systemd-standalone-sysusers) # a host without an init system keeps none
        simulate_chosen "$2" || return 1
    fi
    name=$(sed -n 's/^Inst docker\.io \(\[[^]]*\] \)\?(\([^ ]*\) .*/\2/p' "$WORK/simulation")
    [[ -z $name ]] || recent "$name" || { refuse "$2" "its engine is $name"; return 1; }
    harmless "$WORK/simulation" || { refuse "$2" "it would change what is installed"; return 1; }
}

simulate_chosen() { # suite
    "${APT[@]}" -s install --no-install-recommends "${CHOSEN[@]}" >"$WORK/simulation" 2>&1 && return
    refuse "$1" "$(grep -m1 '^E' "$WORK/simulation" || tail -n1 "$WORK/simulation")"
    return 1
}

refuse() { note "suite $1 cannot be used: $2"; }

install_packages() { # WANTED, from the first suite that adds packages and changes none
    local release suite suites chosen=''
    local by_hand=${BY_HAND:-Docker >= ${OLDEST_SERVER:-} with buildx, and mmdebstrap}
    have apt-get || die "${MISSED:-no engine answers}, and this host ($(os_release ID)) has no apt to install one with" \
        "install $by_hand, with this host's own tools"
    become_root "install packages"
    private_apt
    release=$(os_release VERSION_CODENAME)
    suites=("$release")
    if [[ $(os_release ID) == debian ]]; then
        suites=("${SUITES[@]}" "$release")
        [[ " ${WANTED[*]} " != *" docker"* ]] || suites=(forky trixie "$release")
    fi
    for suite in "${suites[@]}"; do
        if simulate "$release" "$suite"; then
            chosen=$suite
            break
        fi
    done
    [[ -n $chosen ]] || die "no suite has packages that fit this host ($release)" \
        "install $by_hand, by hand; the lines above say why"
    say "will install from $chosen, without touching /etc/apt:"
    awk '/^Inst/ {v = $3 ~ /^\[/ ? $4 : $3; sub(/^\(/, "", v); print "  " $2 " " v}' "$WORK/simulation"
    [[ -n $HAS_ENGINE_TO_COME ]] && settings_for_a_new_engine
    # Without an init system a package's own start script would start an engine that we do not watch.
    [[ -d /run/systemd/system ]] || APT=(env RUNLEVEL=1 "${APT[@]}")
    printf '+ apt-get install --no-install-recommends %s\n' "${CHOSEN[*]}"
    [[ $MODE == dry-run ]] && return
    "${SUDO[@]}" "${APT[@]}" install --yes --no-install-recommends "${CHOSEN[@]}" >"$WORK/install.log" 2>&1 || {
        tail -n 15 "$WORK/install.log" >&2
        die "the packages could not be installed" "read the lines above"
    }
}
