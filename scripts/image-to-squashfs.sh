#!/bin/sh
# image-to-squashfs.sh describe|mounted|layers|stream OFFSET SQUASHFS-OPTION...
#
# Writes the files of an image into image.sif as a squashfs that begins at OFFSET, where skeleton.sif has its own:
# the one that Apptainer makes of an image without files. It is written once, at its final place.
#
#   describe writes what is in the skeleton's to added.pf, and nothing else
#   mounted  the engine shows the image at /image
#   layers   LAYERS (overlayfs' lowerdir, the uppermost layer first) in the folder LAYERS_FOLDER; needs root
#   stream   the named pipe "stream" brings a tar of all (stackwright/engines/sif/tar_stream.py)
#
# It runs in the folder of these files: in a container, or where squashfs-tools 4.6 or later is installed.
set -euf
# The newer way to mount takes 256 bytes for an option, which is eight layers; the older one takes a page.
export LIBMOUNT_FORCE_MOUNT2=always

way=$1 offset=$2
shift 2

describe() { unsquashfs -quiet -no-progress -offset "$offset" -pf added.pf skeleton.sif >/dev/null; }

# What Apptainer adds is given as pseudo files, over which the image's own files of these names win; but of its own
# folder Apptainer's files do, as it would overwrite them. Layers have no sockets: a tar cannot hold them.
of_folder() {
    image=$1
    shift
    describe || return
    overwritten=$(sed -n '/^#$/q; s/^\(\.singularity\.d\/[^ ]*\) [RS] .*/\1/p' added.pf)
    for name in etc/hosts etc/resolv.conf; do # Apptainer empties them, and leaves them to their owner
        if [ -f "$image/$name" ] && [ ! -L "$image/$name" ]; then
            overwritten="$overwritten $name"
            owner=$(stat -c '%u %g' "$image/$name") || return
            LC_ALL=C sed -i "s|^\($name R [0-9]* [0-7]*\) 0 0 |\1 $owner |" added.pf || return
        fi
    done
    # shellcheck disable=SC2086
    mksquashfs "$image" image.sif -noappend -pf added.pf -action 'exclude@type(s)' "$@" -wildcards -e $overwritten
}

# sqfstar 4.7.5 hangs where it excludes files for which there are pseudo files: its tar has both worked in.
of_stream() { sqfstar -force "$@" image.sif <stream; }

case $way in
    describe) describe && exit ;;
    mounted) from="of_folder /image" ;;
    stream) from=of_stream ;;
    layers)
        from="of_folder /run/image"
        mkdir -p /run/image /run/none
        # An overlay has at least two layers.
        (cd "$LAYERS_FOLDER" && mount -t overlay -o "ro,lowerdir=$LAYERS:/run/none" overlay /run/image)
        ;;
esac

# An image's root folder has no attributes in its layers, and of extended attributes they have this one only.
set -- -offset "$offset" -quiet -no-progress -root-mode 755 -root-uid 0 -root-gid 0 \
    -xattrs-include '^security[.]capability$' "$@"
code=0
said=$($from "$@" 2>&1 >/dev/null) || code=$?

# A file that cannot be read is left empty, and that is no failure for mksquashfs: whatever it says is one for us,
# but that the image has a file that Apptainer would add.
if printf '%s' "$said" |
    grep -v -e '^Pseudo file ".*" exists in source filesystem ' -e '^Ignoring, exclude it ' >&2; then
    exit 1
fi
exit $code
