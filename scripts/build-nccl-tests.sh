#!/usr/bin/env bash
# Compile NVIDIA's nccl-tests from its source, with MPI, against the NCCL of one Python environment.
#
# Runs in a stage of the image and, just the same, on any host with the tools: it asks for nothing but the
# variables below, and writes nowhere but to $OUT and a temporary folder.
#
#   SOURCE        folder with archive.txt: the name of an archive, where to fetch it from, and the hash of its
#                 files. An archive of that name in the folder is taken instead of being fetched
#   OUT           folder that receives the programs
#   PROGRAMS      their names, as in "all_reduce_perf sendrecv_perf"
#   CUDA_HOME     folder with bin/nvcc
#   CUDA_ARCHES   architectures, as in "70 80 90"
#   NCCL          folder with include/nccl.h and lib/libnccl.so.2, as in NVIDIA's wheel
#   HOST_CXX      compiler, as in g++-13; mpicc on the PATH says where MPI is
#   PYTHON        any Python 3, which fetches the archive
#   WORK          where to compile; the same path each time
set -euo pipefail

for name in SOURCE OUT PROGRAMS CUDA_HOME CUDA_ARCHES NCCL HOST_CXX PYTHON WORK; do
    [ -n "${!name:-}" ] || { echo "build-nccl-tests: $name is not set; the head of $0 lists what is" >&2; exit 2; }
done
read -r archive address wanted < "$SOURCE/archive.txt"
version=${archive#nccl-tests-}
version=${version%.tar.gz}
mkdir -p "$WORK" "$OUT"
trap 'rm -rf "$WORK"' EXIT

# From here to the hash as in build-ofi-plugin.sh, whose text is a part of the keys of rows.
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
        echo "build-nccl-tests: ERROR: $archive cannot be fetched; put it into the site's folder of sources" >&2
        exit 1
    }
fi
mkdir "$WORK/source"
tar --extract --gzip --file "$given" --directory "$WORK/source" --strip-components=1 --no-same-owner
cd "$WORK/source"

# The list of all files with their hashes, as stackwright/core/archive.py makes it of an archive.
found=$({ find . -type f -print0 | xargs --null sha256sum | sed -E 's/^([0-9a-f]{64})  (.*)$/\2 \1/'
          find . -type l -printf '%p -> %l\n'; } | LC_ALL=C sort | sha256sum | cut -d ' ' -f 1)
if [ "$found" != "$wanted" ]; then
    echo "build-nccl-tests: ERROR: $archive is not the source of release $version: the hash of its files is" \
        "$found, and Stackwright's table has $wanted" >&2
    exit 1
fi

# The wheel of NCCL holds libnccl.so.2 and no libnccl.so, which the linker looks for.
mkdir -p "$WORK/nccl/lib" "$WORK/mpi/lib"
ln -s "$NCCL/include" "$WORK/nccl/include"
ln -s "$NCCL/lib/libnccl.so.2" "$WORK/nccl/lib/libnccl.so"
# Each distribution has MPI in folders of its own: the compiler that comes with it knows them.
export OMPI_CC=$HOST_CXX MPICH_CC=$HOST_CXX
header=$(echo '#include <mpi.h>' | mpicc -x c -E - | sed -n 's/^# 1 "\(.*\)\/mpi\.h".*/\1/p' | head -n 1)
ln -s "$header" "$WORK/mpi/include"

# Machine code for each GPU that the row names, and PTX of the newest for those that come later.
gencode=
for arch in $CUDA_ARCHES; do
    gencode+=" -gencode=arch=compute_$arch,code=sm_$arch"
done
gencode+=" -gencode=arch=compute_$arch,code=compute_$arch"

export NVCC_APPEND_FLAGS="-Xcompiler=-ffile-prefix-map=$WORK=."
read -ra programs <<< "$PROGRAMS"
# The static CUDA runtime, which is nvcc's own default, needs no library of the image.
make --jobs="$(nproc)" --directory=src BUILDDIR="$WORK/made" CUDA_HOME="$CUDA_HOME" CXX="$HOST_CXX" \
    NVCC_GENCODE="$gencode" CUDARTLIB=cudart_static NCCL_HOME="$WORK/nccl" MPI=1 MPI_HOME="$WORK/mpi" \
    "${programs[@]/#/$WORK/made/}"
for program in "${programs[@]}"; do
    # The id of a build follows from the names of nvcc's temporary files, which are others each time.
    strip --strip-all --remove-section=.note.gnu.build-id "$WORK/made/$program"
    install --mode=755 "$WORK/made/$program" "$OUT/"
done
ls -l "$OUT"
