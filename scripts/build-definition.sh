#!/bin/bash
# build-definition.sh CONTEXT TARGET.sif OPTION... DEFINITION
#
# Builds a definition file as an ordinary user, as on a cluster: it runs in the image of scripts/apptainer, which
# starts as root, and gives that up before apptainer sees the file. CONTEXT is the folder that the file takes
# things from; %post and %test see it as /mnt. The OPTIONs are those of `apptainer build`.
set -euo pipefail
exec 2>&1
context=$1 target=$2 options=("${@:3:$#-3}") definition=${!#}
user=builder
work=/var/tmp/$user

useradd --create-home --home-dir "$work" --uid 1000 --user-group "$user"
for map in /etc/subuid /etc/subgid; do
    grep -q "^$user:" "$map" || echo "$user:100000:65536" >>"$map"
done
cp -r "$context" "$work/context"
chown -R "$user:$user" "$work"
chmod 755 "$work" "$work/context"

cd "$work/context"
umask 022
setpriv --reuid "$user" --regid "$user" --init-groups \
    env HOME="$work" APPTAINER_TMPDIR=/var/tmp APPTAINER_DISABLE_CACHE=true \
    apptainer build --fakeroot --bind "$work/context:/mnt" "${options[@]}" "$work/built.sif" "$definition"
cp "$work/built.sif" "$target"
chmod 755 "$target"
chown --reference="$(dirname "$target")" "$target"
