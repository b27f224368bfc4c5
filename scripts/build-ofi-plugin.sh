#!/usr/bin/env bash
# Compile NCCL's plugin for libfabric (aws-ofi-nccl) from its source, against the host's libfabric.
#
# Runs in a stage of the image and, just the same, on any host with the tools: it asks for nothing but the
# variables below, and writes nowhere but to $OUT and a temporary folder.
#
#   SOURCE        folder with archive.txt: the name of an archive, where to fetch it from, and the hash of its
#                 files. An archive of that name in the folder is taken instead of being fetched
#   OUT           folder that receives libnccl-net-ofi.so
#   CUDA_HOME     folder with CUDA's headers and runtime
#   HOST_CC, HOST_CXX          compilers, as in gcc-13 and g++-13
#   ARCH_FLAGS    CPU flags that take the place of those of the CPU that builds it
#   PYTHON        any Python 3, which fetches the archive
#   WORK          where to compile; the same path each time
set -euo pipefail

for name in SOURCE OUT CUDA_HOME HOST_CC HOST_CXX ARCH_FLAGS PYTHON WORK; do
    [ -n "${!name:-}" ] || { echo "build-ofi-plugin: $name is not set; the head of $0 lists what is" >&2; exit 2; }
done
read -r archive address wanted < "$SOURCE/archive.txt"
version=${archive#aws-ofi-nccl-}
version=${version%.tar.gz}
mkdir -p "$WORK" "$OUT"
trap 'rm -rf "$WORK"' EXIT

given=$SOURCE/$archive
if [ ! -e "$given" ]; then
    given=$WORK/$archive
    "$PYTHON" - "$address" "$given" << 'FETCH' || {
import sys, urllib.request
try:
    urllib.request.urlretrieve(*sys.argv[1:])
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error}")
FETCH
        echo "build-ofi-plugin: ERROR: $archive cannot be fetched; put it into the site's folder of sources" >&2
        exit 1
    }
fi
mkdir "$WORK/source"
tar --extract --gzip --file "$given" --directory "$WORK/source" --strip-components=1 --no-same-owner
cd "$WORK/source"

# The list of all files with their hashes, as stackwright/core/ofi/plugin.py makes it of an archive.
found=$({ find . -type f -print0 | xargs --null sha256sum | sed -E 's/^([0-9a-f]{64})  (.*)$/\2 \1/'
          find . -type l -printf '%p -> %l\n'; } | LC_ALL=C sort | sha256sum | cut -d ' ' -f 1)
if [ "$found" != "$wanted" ]; then
    echo "build-ofi-plugin: ERROR: $archive is not the source of release $version: the hash of its files is" \
        "$found, and Stackwright's table has $wanted" >&2
    exit 1
fi

# Since 1.19 the release is asked of git, or of this file.
echo "$version" > .release_version
case $CUDA_HOME in
/usr) cuda=() ;; # the compiler's own folder: named once more, it hides the C library's headers
*) cuda=(--with-cuda="$CUDA_HOME") ;;
esac
autoreconf --install --force
# The CUDA runtime is the frameworks' own, found when the plugin starts: a second one in a process has a state
# of its own. What is only for AWS is left out: configure would ask the host that builds whether it is one.
./configure CC="$HOST_CC" CXX="$HOST_CXX" CXXFLAGS="-g0 $ARCH_FLAGS -ffile-prefix-map=$WORK=." \
    --prefix=/usr/local "${cuda[@]}" --enable-cudart-dynamic --disable-tests --disable-picky-compiler \
    --disable-platform-aws --disable-nccl-net-symlink --with-mpi=no
make --jobs="$(nproc)" --directory=src
make --directory=src install-libLTLIBRARIES DESTDIR="$WORK/made" > "$WORK/install.log"
strip --strip-unneeded "$WORK/made/usr/local/lib/libnccl-net-ofi.so"
install --mode=644 "$WORK/made/usr/local/lib/libnccl-net-ofi.so" "$OUT/"
