#!/bin/sh
# layers-to-sif.sh CONFIG.tar LAYERS TARGET.sif ARCHITECTURE SQUASHFS-OPTION...
#
# Makes a SIF out of an image's layers where the engine keeps them, without a copy of them. It runs in the
# image of scripts/apptainer, privileged. CONFIG.tar is an archive with the image's configuration and an empty
# layer: Apptainer itself makes a SIF of it, whose root file system is then exchanged for the real one. So all
# that Apptainer writes (environment, runscript, labels, OCI configuration) is as it would be.
# LAYERS is overlayfs' lowerdir, relative to the working folder, the uppermost first.
set -eu
# The newer way to mount takes 256 bytes for an option, which is eight layers; the older one takes a page.
export LIBMOUNT_FORCE_MOUNT2=always

config=$1 layers=$2 target=$3 architecture=$4
shift 4
work=/run/layers-to-sif
mkdir -p $work/added $work/view
case $architecture in
    386) part=1 ;;
    amd64) part=2 ;;
    arm) part=3 ;;
    arm64) part=4 ;;
    *) echo "no SIF architecture for $architecture" >&2 && exit 2 ;;
esac

apptainer --quiet build --force "$target" "docker-archive:$config"
partition=$(apptainer sif list "$target" | sed -n 's/^\([0-9]*\) .*FS (Squashfs.*/\1/p')
apptainer sif dump "$partition" "$target" >$work/small
unsquashfs -quiet -no-progress -dest $work/small.d $work/small

# What Apptainer put beside the layer: its own folder, and empty files to mount over where there are none.
mount -t overlay -o "ro,lowerdir=$layers:$work/added" overlay $work/view
alike() { # what to set on folder $1: mode and owner of $2
    chown --reference="$2" "$1"
    chmod --reference="$2" "$1"
}
(cd $work/small.d && find . -mindepth 1) >$work/paths
while read -r path; do
    case $path in
        ./.singularity.d*) ;;
        *) if [ -e "$work/view/$path" ] || [ -L "$work/view/$path" ]; then continue; fi ;;
    esac
    parent=$(dirname "$path")
    if [ ! -d "$work/added/$parent" ]; then # a folder of the image: it stays as it is
        mkdir -p "$work/added/$parent"
        alike "$work/added/$parent" "$work/view/$parent"
    fi
    if [ -d "$work/small.d/$path" ] && [ ! -L "$work/small.d/$path" ]; then
        mkdir -p "$work/added/$path"
        alike "$work/added/$path" "$work/small.d/$path"
    else
        cp -a "$work/small.d/$path" "$work/added/$path"
    fi
done <$work/paths
umount $work/view
mount -t overlay -o "ro,lowerdir=$work/added:$layers" overlay $work/view

mksquashfs $work/view "$target.squashfs" -noappend -quiet -no-progress "$@"
apptainer sif del "$partition" "$target"
apptainer sif add --datatype 4 --parttype 2 --partfs 1 --partarch "$part" --groupid 1 \
    "$target" "$target.squashfs"
rm "$target.squashfs"
