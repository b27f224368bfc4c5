#!/usr/bin/env bash
# Compile one Horovod wheel against the frameworks of one Python environment.
#
# Runs in a stage of the image and, just the same, on any host with the tools: it asks for nothing
# but the variables below, and writes nowhere but to $OUT and a temporary folder.
#
#   PYTHON        python of the environment that holds the frameworks
#   SOURCE        horovod's source archive (.tar.gz)
#   PATCHES       folder of *.patch files, applied in the order of their names; need not exist
#   OUT           folder that receives the wheel
#   CUDA_HOME     folder with bin/nvcc
#   CUDA_ARCHES   architectures, as in "70 80 90"
#   HOST_CC, HOST_CXX          compilers, as in gcc-13 and g++-13
#   FRAMEWORKS    any of: pytorch tensorflow mxnet
#   ARCH_FLAGS    CPU flags; without them Horovod takes those of the CPU that builds it
#
# and, where there is a folder that outlives one build:
#
#   CACHE         that folder: finished wheels, and ccache's objects
#   WHEEL_KEY     digest of everything that the wheel depends on: a wheel of the same key is not compiled again
#   WORK          where to compile; the same path each time, because it ends up in the objects
set -euo pipefail

for name in PYTHON SOURCE PATCHES OUT CUDA_HOME CUDA_ARCHES HOST_CC HOST_CXX FRAMEWORKS ARCH_FLAGS; do
    [ -n "${!name:-}" ] || { echo "build-horovod: $name is not set; the head of $0 lists what is" >&2; exit 2; }
done

kept=${CACHE:+$CACHE/wheels/${WHEEL_KEY:?build-horovod: CACHE is set, and WHEEL_KEY is not}}
mkdir -p "$OUT"
if [ -n "$kept" ] && [ -d "$kept" ]; then
    echo "build-horovod: a wheel of the key $WHEEL_KEY is there; nothing is compiled"
    cp "$kept"/horovod-*.whl "$OUT/"
    exit
fi

work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

mkdir "$work/source"
tar -xzf "$SOURCE" -C "$work/source" --strip-components=1
for patch in "$PATCHES"/*.patch; do
    [ -e "$patch" ] || continue
    echo "build-horovod: applying $(basename "$patch")"
    patch -d "$work/source" -p1 --forward --fuzz=0 < "$patch"
done

# The wheel of NCCL holds libnccl.so.2 and no libnccl.so, which the linker looks for.
mkdir "$work/nccl"
ln -s "$site/nvidia/nccl/lib/libnccl.so.2" "$work/nccl/libnccl.so"

# The libraries that the frameworks load are the ones to link against and to find at run time.
rpath=
for dir in "$site"/nvidia/{nccl,cuda_runtime,cu13}/lib "$site"/torch/lib "$site"/{tensorflow,tensorflow/python,mxnet}; do
    [ ! -d "$dir" ] || rpath="${rpath:+$rpath:}$dir"
done

# MXNet loads the CUDA libraries and the driver's when it is imported, which the build does. A host
# without a driver lends it one that knows of no device (CUDA_ERROR_NO_DEVICE), for the build alone.
if [[ " $FRAMEWORKS " == *" mxnet "* ]]; then
    mkdir "$work/driver"
    nm -D --undefined-only "$site/mxnet/libmxnet.so" |
        sed -n 's/^ *U \(cu[A-Z][A-Za-z0-9_]*\)$/int \1(void) { return 100; }/p' > "$work/driver.c"
    "$HOST_CC" -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/driver/libcuda.so.1" "$work/driver.c"
    for dir in "$site"/nvidia/*/lib "$work/driver"; do
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir"
    done
fi

definitions="-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared -DCMAKE_SKIP_BUILD_RPATH=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
if [ -n "${CACHE:-}" ]; then
    export CCACHE_DIR="$CACHE/ccache" CCACHE_COMPILERCHECK=content CCACHE_MAXSIZE=4G
    ccache --zero-stats > /dev/null
    definitions+=" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache"
fi

# setup.py offers no way to pass a CMake definition but the name of the program.
cat > "$work/cmake" <<WRAPPER
#!/bin/sh
case "\$1" in
--build|--version) exec cmake "\$@" ;;
*) exec cmake $definitions "\$@" ;;
esac
WRAPPER
chmod +x "$work/cmake"

export CC=$HOST_CC CXX=$HOST_CXX CUDAHOSTCXX=$HOST_CXX CUDA_HOME
# RPATH and not RUNPATH: a host's LD_LIBRARY_PATH must not bring a second NCCL into the process.
export LDFLAGS="-Wl,--disable-new-dtags,-rpath,$rpath"
export HOROVOD_CMAKE="$work/cmake"
export CMAKE_POLICY_VERSION_MINIMUM=3.5 # Horovod's gloo asks for less, which CMake 4 refuses
export HOROVOD_CUDA_HOME="$CUDA_HOME" HOROVOD_BUILD_CUDA_CC_LIST="${CUDA_ARCHES// /,}"
export HOROVOD_BUILD_ARCH_FLAGS="$ARCH_FLAGS"
export HOROVOD_GPU=CUDA HOROVOD_GPU_OPERATIONS=NCCL
export HOROVOD_NCCL_LINK=SHARED HOROVOD_NCCL_LIB="$work/nccl" HOROVOD_NCCL_INCLUDE="$site/nvidia/nccl/include"
export HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1
for framework in PYTORCH TENSORFLOW MXNET; do
    case " $FRAMEWORKS " in
    *" ${framework,,} "*) export "HOROVOD_WITH_$framework=1" ;;
    *) export "HOROVOD_WITHOUT_$framework=1" ;;
    esac
done
export MAKEFLAGS="${MAKEFLAGS:--j$(nproc)}"

cd "$work/source"
"$PYTHON" setup.py build
find build/lib* -name '*.so' -exec strip --strip-debug {} +

# What compiled it, read from the programs themselves; nothing in the image tells it later. The CPU flags
# are those of every command that ran: a -march=native among them would tie the wheel to this CPU.
"$PYTHON" - build/lib*/horovod build/temp*/*/compile_commands.json <<'INFO'
import glob, json, os, re, shlex, subprocess, sys

def said(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout.decode()

with open(sys.argv[2]) as file:
    commands = [shlex.split(entry["command"]) for entry in json.load(file)]
words = {word for command in commands for part in command for word in part.replace(",", " ").split()}
patches = sorted(os.path.basename(path) for path in glob.glob(os.path.join(os.environ["PATCHES"], "*.patch")))
info = {
    "nvcc": re.search(r"release ([0-9.]+)", said(os.path.join(os.environ["CUDA_HOME"], "bin", "nvcc"), "--version"))[1],
    "gcc": said(os.environ["CC"], "-dumpfullversion").strip(),
    "cmake": re.search(r"[0-9.]+", said("cmake", "--version"))[0],
    "patches": [re.sub(r"^[0-9]+-", "", name) for name in patches],
    "cpu_flags": sorted(word for word in words if re.match("-m(arch|tune|cpu|avx|fma|f16c|sse|bmi|x)", word)),
}
with open(os.path.join(sys.argv[1], "build_info.json"), "w") as file:
    json.dump(info, file, indent=1, sort_keys=True)
INFO
"$PYTHON" setup.py bdist_wheel --skip-build --dist-dir "$work/dist"
cp "$work"/dist/horovod-*.whl "$OUT/"
ls -l "$OUT"
if [ -n "$kept" ]; then
    ccache --show-stats
    mkdir -p "${kept%/*}"
    draft=$(mktemp -d "$CACHE/wheels/.XXXXXX")
    cp "$work"/dist/horovod-*.whl "$draft/"
    mv -T "$draft" "$kept" 2> /dev/null || rm -r "$draft" # another build of the same key was first
fi
