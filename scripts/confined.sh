# shellcheck shell=bash
# A container without privileges, such as a job of Kubernetes, for scripts/rootless.sh: Podman and its builder
# are root of a user namespace that they make, or nothing. They build by chroot there. Whether they can start
# containers depends on /proc, of which such a container hides parts: then the kernel refuses a new one.

readonly SETGID=6 SETUID=7 SYS_ADMIN=21 SETFCAP=31 # numbers of linux/capability.h

has_capability() { # line of /proc/self/status, number; where there is no such line, all are there
    local found
    found=$(sed -n "s/^$1:[[:space:]]*//p" /proc/self/status 2>/dev/null || true)
    [[ -z $found ]] || ((16#$found >> $2 & 1))
}

# No process here can get hold of what mounts: on a host every process could, by a program of root.
confined() { ! has_capability CapBnd $SYS_ADMIN; }

confined_can_build() {
    local said number
    unshare --user true 2>/dev/null ||
        die "this container lets nobody make a user namespace, as Docker's and containerd's profile of seccomp does" \
            "seccompProfile: {type: Unconfined} in the pod's securityContext, or docker run --security-opt seccomp=unconfined"
    if ((EUID == 0)); then
        for number in $SETUID $SETGID $SETFCAP; do
            has_capability CapEff "$number" ||
                die "root of this container may not give a user namespace its ids" \
                    "add the capabilities SETUID, SETGID and SETFCAP"
        done
        return
    fi
    said=$(podman unshare true 2>&1) && return
    note "${said##*$'\n'}"
    die "this user may not give a user namespace its ids" \
        "allowPrivilegeEscalation: true, capabilities SETUID and SETGID, and newuidmap with the file's own (docs/rootless.md)"
}

# The kernel mounts an overlay on a volume; on the container's own files, an overlay too, fuse-overlayfs has to.
overlay_on() { # folder
    local try answer=1
    try=$(mktemp -d "$1/try.XXXXXX")
    mkdir "$try"/{lower,upper,work,merged}
    ! unshare --user --map-root-user --mount mount -t overlay overlay "$try/merged" \
        -o "lowerdir=$try/lower,upperdir=$try/upper,workdir=$try/work,userxattr" 2>/dev/null || answer=0
    rm -rf "$try"
    [[ $answer == 0 ]] || { have fuse-overlayfs && [[ -r /dev/fuse && -w /dev/fuse ]]; }
}

confined_storage() { # sets STORAGE to the folder of the images, and DRIVER
    STORAGE=/var/lib/containers/storage DRIVER=overlay
    ((EUID == 0)) || STORAGE=${XDG_DATA_HOME:-$HOME/.local/share}/containers/storage
    mkdir -p "$STORAGE"
    if [[ -d $STORAGE/vfs-images ]] || { [[ ! -d $STORAGE/overlay-images ]] && ! overlay_on "$STORAGE"; }; then
        DRIVER=vfs
        note "every layer will be a whole copy (driver vfs): mount a volume at ${STORAGE%/storage}, or give /dev/fuse"
    fi
}

# A file of one's own goes before: it may name another folder.
confined_settings() { # prints them as lines of a shell
    local folder=$XDG_RUNTIME_DIR/podman file
    printf '[containers]\ncgroups = "disabled"\ndefault_sysctls = []\n[engine]\nruntime = "%s"\n' "$RUNTIME" \
        >"$folder/stackwright.conf"
    printf 'export CONTAINERS_CONF_OVERRIDE=%q PODMAN_IGNORE_CGROUPSV1_WARNING=1 BUILDAH_ISOLATION=chroot\n' \
        "$folder/stackwright.conf"
    for file in "${CONTAINERS_STORAGE_CONF:-}" /etc/containers/storage.conf ~/.config/containers/storage.conf; do
        if [[ -s $file && $file != "$folder/storage.conf" ]]; then return; fi
    done
    confined_storage
    printf '[storage]\ndriver = "%s"\ngraphroot = "%s"\nrunroot = "%s"\n' "$DRIVER" "$STORAGE" \
        "$folder/storage" >"$folder/storage.conf"
    printf 'export CONTAINERS_STORAGE_CONF=%q\n' "$folder/storage.conf"
}

in_namespace() { # of users, as with hostUsers: false
    ! grep -qs '^ *0 *0 *4294967295$' /proc/self/uid_map
}

confined_ready() {
    local starts='starts containers'
    ! in_namespace || ((EUID != 0 || $(ids_of /etc/subuid root) >= IDS - 1)) ||
        starts='starts none: the image has to have root:1:65535 in /etc/subuid and /etc/subgid'
    unshare --user --map-root-user --pid --fork --mount-proc true 2>/dev/null ||
        starts='starts none, since parts of /proc are hidden: rows are built, and not proven'
    note "ready: Podman $SERVER in a container without privileges, which builds by chroot and $starts"
}
