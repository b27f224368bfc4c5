#!/usr/bin/env bash
# Compile one distribution from its source against the packages of one Python environment.
#
# Runs in a stage of the image and, just the same, on any host with the tools: it asks for nothing
# but the variables below, and writes nowhere but to $OUT and a temporary folder.
#
#   PYTHON        python of the environment that holds the frameworks
#   ASKED         folder with source.txt (one pin with the hash of its source), needs.txt (pins of packages that
#                 it is compiled with, and that the environment lacks) and env.txt (NAME=VALUE, for its build)
#   OUT           folder that receives the wheel
#   CUDA_HOME     folder with bin/nvcc
#   CUDA_ARCHES   architectures, as in "7.0;8.0;9.0"
#   HOST_CC, HOST_CXX          compilers, as in gcc-13 and g++-13
#   ARCH_FLAGS    CPU flags that take the place of those of the CPU that builds it
#
# and, where there is a folder that outlives one build:
#
#   CACHE         that folder: finished wheels, and ccache's objects
#   WHEEL_KEY     digest of everything that the wheel depends on: a wheel of the same key is not compiled again
#   WORK          where to compile; the same path each time, because it ends up in the objects
set -euo pipefail

for name in PYTHON ASKED OUT CUDA_HOME CUDA_ARCHES HOST_CC HOST_CXX ARCH_FLAGS; do
    [ -n "${!name:-}" ] || { echo "build-distribution: $name is not set; the head of $0 lists what is" >&2; exit 2; }
done

kept=${CACHE:+$CACHE/wheels/${WHEEL_KEY:?build-distribution: CACHE is set, and WHEEL_KEY is not}}
mkdir -p "$OUT"
if [ -n "$kept" ] && [ -d "$kept" ]; then
    echo "build-distribution: a wheel of the key $WHEEL_KEY is there; nothing is compiled"
    cp "$kept"/*.whl "$OUT/"
    exit
fi

work=${WORK:-$(mktemp -d)}
mkdir -p "$work/bin" "$work/dist" "$work/source"
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

launcher=
if [ -n "${CACHE:-}" ]; then
    export CCACHE_DIR="$CACHE/ccache" CCACHE_COMPILERCHECK=content CCACHE_MAXSIZE=4G
    ccache --zero-stats > /dev/null
    launcher=ccache
fi

# Every compiler is started by a program that notes the command. What a build finds out about the CPU that it
# runs on is none of the image's: -march=native, and DeepSpeed's own word for AVX-512, become the row's.
wrap() { # NAME PROGRAM LAUNCHER
    cat > "$work/bin/$1" << WRAPPER
#!/bin/bash
words=()
for word in "\$@"; do
    case \$word in
    -march=native | -mcpu=native | -mtune=native) words+=($ARCH_FLAGS) ;;
    -D__AVX512__) words+=(-D__AVX256__) ;;
    *) words+=("\$word") ;;
    esac
done
echo "$1 \${words[*]}" >> "$work/commands"
exec $3 "$2" "\${words[@]}"
WRAPPER
    chmod +x "$work/bin/$1"
}
touch "$work/commands"
for name in "$HOST_CC" gcc cc x86_64-linux-gnu-gcc; do wrap "$name" "$(command -v "$HOST_CC")" "$launcher"; done
for name in "$HOST_CXX" g++ c++ x86_64-linux-gnu-g++; do wrap "$name" "$(command -v "$HOST_CXX")" "$launcher"; done
wrap nvcc "$CUDA_HOME/bin/nvcc" "$launcher"
for name in mpicc mpicxx mpic++; do
    program=$(command -v "$name") || continue
    wrap "$name" "$program" ""
done

# The libraries that the frameworks load are the ones to find at run time. RPATH and not RUNPATH: a host's
# LD_LIBRARY_PATH must not bring a second CUDA runtime into the process.
rpath=
for dir in "$site"/nvidia/*/lib "$site"/torch/lib; do
    [ ! -d "$dir" ] || rpath="${rpath:+$rpath:}$dir"
done
export LDFLAGS="-Wl,--disable-new-dtags${rpath:+,-rpath,$rpath}"
# Headers and libraries of NVIDIA's that a toolkit in wheels lacks are those of the frameworks.
if [ ! -e "$CUDA_HOME/include/cublas_v2.h" ]; then
    for dir in "$site"/nvidia/*/include; do
        [ ! -d "$dir" ] || export CPATH="${CPATH:+$CPATH:}$dir"
    done
    mkdir "$work/lib"
    for library in "$site"/nvidia/*/lib/lib*.so.*; do
        base=${library##*/}
        [ ! -e "$library" ] || ln -sf "$library" "$work/lib/${base%%.so.*}.so"
    done
    export LIBRARY_PATH="$work/lib"
fi

export PATH="$work/bin:$work/needs/bin:$PATH" PYTHONPATH="$work/needs"
export CC=$HOST_CC CXX=$HOST_CXX CUDAHOSTCXX=$HOST_CXX CUDA_HOME
export OMPI_CC=$HOST_CC OMPI_CXX=$HOST_CXX MPICH_CC=$HOST_CC MPICH_CXX=$HOST_CXX
export PYTORCH_NVCC="$work/bin/nvcc" TORCH_CUDA_ARCH_LIST="$CUDA_ARCHES"
# A compiler of CUDA takes up to three GB.
jobs=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 3000000))
((jobs < $(nproc))) || jobs=$(nproc)
((jobs > 0)) || jobs=1
export MAX_JOBS=$jobs MAKEFLAGS="-j$jobs" CMAKE_BUILD_PARALLEL_LEVEL=$jobs NVCC_THREADS=1
while IFS='=' read -r name value; do export "$name=$value"; done < "$ASKED/env.txt"

if [ -s "$ASKED/needs.txt" ]; then
    "$PYTHON" -m pip install --progress-bar off --no-cache-dir --no-compile --no-deps --only-binary :all: \
        --require-hashes --target "$work/needs" -r "$ASKED/needs.txt"
fi
"$PYTHON" -m pip download --progress-bar off --no-cache-dir --no-deps --no-build-isolation --no-binary :all: \
    --require-hashes --dest "$work/archive" -r "$ASKED/source.txt"
archive=$(echo "$work"/archive/*.tar.gz)
tar -xzf "$archive" -C "$work/source" --strip-components=1 --no-same-owner
: > "$work/commands"
cd "$work/source"
sources=$(find . -name '*.cu' | wc -l)
"$PYTHON" -m pip wheel --verbose --no-cache-dir --no-index --no-deps --no-build-isolation \
    --wheel-dir "$work/dist" .

# What compiled it, read from the programs themselves, becomes a file of the wheel; so do stripped libraries.
cd "$work"
SOURCES=$sources ARCHIVE=$archive WORK=$work "$PYTHON" - "$work"/dist/*.whl "$OUT" << 'REPACK'
import base64, hashlib, importlib.metadata, json, os, platform, re, subprocess, sys, tempfile, time, zipfile

wheel, out = sys.argv[1:]
work, asked = os.environ["WORK"], os.environ["ASKED"]

def said(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout.decode()

def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")

def stripped(content):
    with tempfile.NamedTemporaryFile(dir=work) as file:
        file.write(content)
        file.flush()
        subprocess.run(["strip", "--strip-debug", file.name], check=True)
        with open(file.name, "rb") as again:
            return again.read()

def lines(name):
    with open(os.path.join(asked, name)) as file:
        return file.read().splitlines()

with open(os.path.join(work, "commands")) as file:
    commands = [line.split() for line in file]
programs = {words[0] for words in commands if words}
if any("-D__NVCC__" in words for words in commands):  # started by its path: it hands C++ to the compiler above
    programs.add("nvcc")
nvcc = said(os.path.join(os.environ["CUDA_HOME"], "bin", "nvcc"), "--version")
mpi = re.search(r"(?:\(Open MPI\)|Version:)\s+(\d+(?:\.\d+)*)", said("mpirun", "--version"))
flags = re.compile("-m(arch|tune|cpu|avx|fma|f16c|sse|bmi|x)")
with open(os.environ["ARCHIVE"], "rb") as file:
    sha256 = hashlib.sha256(file.read()).hexdigest()
info = {
    "source": {"file": os.path.basename(os.environ["ARCHIVE"]), "sha256": sha256},
    "gcc": said(os.environ["CC"], "-dumpfullversion").strip(),
    "nvcc": re.search(r"release ([0-9.]+)", nvcc)[1] if "nvcc" in programs else None,
    "cuda_sources": int(os.environ["SOURCES"]),
    "cuda_arches": os.environ["CUDA_ARCHES"].split(";"),
    "mpi": mpi[1] if mpi and programs & {"mpicc", "mpicxx", "mpic++"} else None,
    "python": platform.python_version(),
    "environment": dict(line.split("=", 1) for line in lines("env.txt")),
    "cpu_flags": sorted({word for words in commands for word in words if flags.match(word)}),
    "packages": {
        re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower(): one.version
        for one in importlib.metadata.distributions()
    },
}

files, modes = {}, {}
with zipfile.ZipFile(wheel) as archive:
    for member in archive.infolist():
        if not member.is_dir():
            content = archive.read(member)
            files[member.filename] = stripped(content) if content.startswith(b"\x7fELF") else content
            modes[member.filename] = member.external_attr
(record,) = [name for name in files if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
folder = record.rpartition("/")[0]
note = folder + "/stackwright.json"
files[note] = (json.dumps(info, indent=1, sort_keys=True) + "\n").encode()
del files[record]
rows = ["%s,sha256=%s,%d" % (name, digest(files[name]), len(files[name])) for name in sorted(files)]
if any("," in name or '"' in name for name in files):
    sys.exit("build-distribution: a file of the wheel has a comma in its name")
files[record] = ("\n".join([*rows, record + ",,"]) + "\n").encode()
when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
with zipfile.ZipFile(os.path.join(out, os.path.basename(wheel)), "w", zipfile.ZIP_DEFLATED) as archive:
    for name in sorted(files):
        member = zipfile.ZipInfo(name, when)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = modes.get(name, 0o100644 << 16)
        archive.writestr(member, files[name])
print(json.dumps(info, indent=1, sort_keys=True))
REPACK
ls -l "$OUT"
if [ -n "$kept" ]; then
    ccache --show-stats
    mkdir -p "${kept%/*}"
    draft=$(mktemp -d "$CACHE/wheels/.XXXXXX")
    cp "$OUT"/*.whl "$draft/"
    mv -T "$draft" "$kept" 2> /dev/null || rm -r "$draft" # another build of the same key was first
fi
