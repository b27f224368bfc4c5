"""One planted fault per line: what is done to the good image, and the checks that must find it."""

from __future__ import annotations

from dataclasses import dataclass

from stackwright.checks import built
from stackwright.verify import RULES

FAKE = "/usr/src/fake/build"
SITE = "$(/opt/stack/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
MULTIARCH = "/usr/lib/x86_64-linux-gnu"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
NEW_CA = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=site -keyout /dev/null -out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``instructions`` are Dockerfile lines on top of the good image; ``says`` is in the check's detail."""

    name: str
    instructions: tuple[str, ...]
    red: frozenset[str]
    says: str


def run(name: str, command: str, red: str, says: str) -> Fault:
    """A fault that root plants with a command."""
    lines = ("USER root", f"RUN {command}", "USER train")
    return Fault(name=name, instructions=lines, red=frozenset({red}), says=says)


def meta(name: str, instruction: str, red: str, says: str) -> Fault:
    """A fault in what the image says of itself."""
    return Fault(name=name, instructions=(instruction,), red=frozenset({red}), says=says)


def extension(name: str, change: str, red: str, says: str) -> Fault:
    """Horovod's extension compiled in another way."""
    return run(name, f"{change} {FAKE} extension", red, says)


def library(folder: str, name: str, *sources: str) -> str:
    """The command that compiles one more library."""
    return " ".join(("cd /usr/src/fake &&", FAKE, "library", folder, name, *sources))


def load(path: str) -> str:
    """The command that lets the extension's module load a library by its path."""
    return f"echo 'ctypes.CDLL(\"{path}\")' >> {SITE}/horovod/torch/__init__.py"


def metadata(package: str, change: str) -> str:
    return f"sed -i '{change}' {SITE}/{package}*.dist-info/METADATA"


NEEDS_THE_IMPORT = frozenset({"link.import", *(rule.id for rule in built.RULES)})

FAULTS = (
    run("host-key", "ssh-keygen -q -A", "static.host-key", "/etc/ssh/ssh_host_ed25519_key is a host key"),
    run("private-key", "su train -c \"ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519\"",
        "static.private-key", "/home/train/.ssh/id_ed25519 is a private key"),
    run("private-key-of-root", "openssl genrsa -out /root/site.key 2048",
        "static.private-key", "/root/site.key"),
    run("site-ca-in-bundle", f"{NEW_CA} /root/ca && cat /root/ca >> {BUNDLE}",
        "static.site-ca", "1 certificates of"),
    run("site-ca-local", f"mkdir -p /usr/local/share/ca-certificates && {NEW_CA} "
        "/usr/local/share/ca-certificates/site.crt", "static.site-ca", "site.crt is not from"),
    run("pip-cache", "mkdir -p /root/.cache/pip/http && echo x > /root/.cache/pip/http/wheel",
        "static.pip-cache", "/root/.cache/pip/http/wheel"),
    run("apt-lists", "echo x > /var/lib/apt/lists/mirror_dists_Packages", "static.apt-cache", "mirror_dists"),
    run("apt-archive", "echo x > /var/cache/apt/archives/left.deb", "static.apt-cache", "left.deb"),
    run("pip-config", "printf '[global]\\nindex-url = http://index.example\\n' > /etc/pip.conf",
        "static.site-config", "/etc/pip.conf"),
    run("apt-sources", "printf 'deb %s sid main' http://mirror.example > /etc/apt/sources.list.d/site.list",
        "static.site-config", "site.list"),
    meta("proxy", "ENV https_proxy=http://proxy.example:3128", "static.proxy", "https_proxy"),
    Fault(name="index-in-history", red=frozenset({"static.history"}), says="PIP_INDEX_URL=h",
          instructions=("ARG PIP_INDEX_URL=http://index.example", "RUN true")),
    Fault(name="site-in-a-deleted-file", red=frozenset({"static.site-layers"}),
          says="mirror in etc/left of layer",
          instructions=("USER root", "RUN echo http://mirror.planted.example/debian > /etc/left",
                        "RUN rm /etc/left", "USER train")),
    run("left-in-tmp", "echo x > /var/tmp/wheel.log", "static.temporary", "/var/tmp/wheel.log"),
    run("stub-in-folder", library(MULTIARCH, "libcuda.so.1", "cuda.c"),
        "static.libcuda-stub", "by standard folder"),
    run("stub-in-cache", library("/opt/cuda/stubs", "libcuda.so.1", "cuda.c") +
        " && echo /opt/cuda/stubs > /etc/ld.so.conf.d/cuda.conf && ldconfig",
        "static.libcuda-stub", "by ld.so.cache"),
    meta("library-path", "ENV LD_LIBRARY_PATH=/opt/stack/lib", "static.library-path", "/opt/stack/lib"),
    meta("root", "USER root", "static.user", "default user is root"),
    meta("user-without-name", "USER 4711", "static.user", "4711 has no name"),
    run("no-tini", "rm /usr/bin/tini", "static.init", "no tini"),
    meta("no-entrypoint", 'ENTRYPOINT ["/bin/bash"]', "static.entrypoint", "/bin/bash"),
    run("no-sshd", "rm /usr/sbin/sshd", "static.ssh", "no sshd"),
    Fault(name="no-rdma-provider", red=frozenset({"static.rdma", "link.verbs"}), says="no provider",
          instructions=("USER root", f"RUN rm -r {MULTIARCH}/libibverbs", "USER train")),
    Fault(name="no-ucx", red=frozenset({"static.rdma", "link.ucx"}), says="libucp",
          instructions=("USER root", f"RUN rm {MULTIARCH}/libucp.so*", "USER train")),
    run("no-headers", "rm /usr/include/python3*/Python.h", "static.compiler", "no Python.h"),
    run("nvcc-in-runtime", "mkdir -p /usr/local/cuda/bin && printf '#!/bin/sh' > /usr/local/cuda/bin/nvcc && "
        "chmod +x /usr/local/cuda/bin/nvcc", "static.nvcc", "/usr/local/cuda/bin/nvcc"),
    meta("no-require-cuda", "ENV NVIDIA_REQUIRE_CUDA=", "static.environment", "names no lowest CUDA"),
    meta("require-newer-cuda", "ENV NVIDIA_REQUIRE_CUDA=cuda>=13.0", "static.environment", "cuda>=13.0"),
    meta("no-capabilities", "ENV NVIDIA_DRIVER_CAPABILITIES=", "static.environment", "DRIVER_CAPABILITIES"),
    meta("no-title", "LABEL org.opencontainers.image.title=", "static.oci-labels", "title is missing"),
    meta("other-version", "LABEL org.opencontainers.image.version=0.28.1", "static.oci-labels", "'0.28.1'"),
    meta("other-created", "LABEL org.opencontainers.image.created=today", "static.oci-labels", "'today'"),
    meta("other-pmix", "LABEL org.stackwright.pmix=3.1.5", "static.cluster-labels", "3.1.5"),
    meta("other-row", "LABEL org.stackwright.row=another", "static.row-label", "'another'"),
    meta("other-provider", "LABEL org.stackwright.provider=nvidia", "declared.provider", "nvidia"),
    meta("other-stack", 'LABEL org.stackwright.stack=\'{"id":"faults","cuda":"11.8"}\'',
         "static.stack-label", "11.8"),
    run("other-row-file", "sed -i s/0.28.1/0.27.0/ /etc/stackwright/row.json", "static.row-file", "0.27.0"),
    run("other-os", "sed -i s/trixie/bookworm/ /etc/os-release", "declared.os", "bookworm"),
    run("other-gcc", "printf '#!/bin/sh\\necho 12.2.0\\n' > /usr/local/bin/gcc && "
        "chmod +x /usr/local/bin/gcc", "declared.gcc", "12.2.0"),
    run("other-mpi", "sed -i s/5.0.7/4.1.4/ /opt/stack/bin/mpirun", "declared.mpi", "4.1.4"),
    run("other-horovod", metadata("horovod", "s/^Version: .*/Version: 0.27.0/"),
        "declared.horovod", "0.27.0"),
    run("other-package", metadata("filelock", "s/^Version: .*/Version: 1.0/"),
        "declared.packages", "filelock is 1.0"),
    run("extra-package", f"cp -r {SITE}/filelock-*.dist-info {SITE}/extra-1.0.dist-info && "
        + metadata("extra", "s/^Name: .*/Name: extra/"), "declared.packages", "the lock has none"),
    run("lost-package", f"rm -r {SITE}/filelock-*.dist-info", "declared.packages", "filelock is absent"),
    Fault(name="other-libc", red=frozenset({"declared.distribution", "static.cluster-labels"}),
          says="libc6 is 2.0-1", instructions=(
              "USER root",
              "RUN sed -i '/^Package: libc6$/,/^$/s/^Version: .*/Version: 2.0-1/' /var/lib/dpkg/status",
              "USER train")),
    run("second-nccl", library("/usr/local/lib", "libnccl.so.2", "nccl.c") + " && "
        + load("/usr/local/lib/libnccl.so.2"), "link.one-nccl", "2 files: torch maps"),
    run("second-cudart", library("/usr/local/lib", "libcudart.so.11.0", "cudart.c") + " && "
        + load("/usr/local/lib/libcudart.so.11.0"), "link.one-cudart", "libcudart.so.11.0"),
    run("second-cudnn", library("/usr/local/lib", "libcudnn.so.8", "-DCUDNN_CODE=8902", "cudnn.c") + " && "
        + load("/usr/local/lib/libcudnn.so.8"), "link.one-cudnn", "libcudnn.so.8"),
    run("unused-nccl", library("/usr/local/lib", "libnccl.so.2", "nccl.c"),
        "link.leftover-cuda", "/usr/local/lib/libnccl.so.2 is loaded by nothing"),
    extension("static-nccl", "STATIC=1", "link.shared", "shared libnccl.so"),
    run("provider-cut-short", f"truncate --size 100 {MULTIARCH}/libibverbs/libmlx4-rdmav*.so", "link.verbs",
        "libmlx4-rdmav34.so does not load"),
    run("provider-without-its-library", f"rm {MULTIARCH}/libefa.so.1*", "link.verbs",
        "libefa-rdmav34.so does not load"),
    run("ucx-module-cut-short", f"truncate --size 100 {MULTIARCH}/ucx/libuct_rdmacm.so.0.0.0", "link.ucx",
        "libuct_rdmacm.so.0 does not load"),
    run("ucx-without-infiniband", f"rm {MULTIARCH}/ucx/libuct_ib.so*", "link.ucx", "no libuct_ib.so.0"),
    run("other-ucx", "printf '#!/bin/sh\\necho version: 1.10.0 Transport: self' > /usr/local/bin/ucx_info && "
        "chmod +x /usr/local/bin/ucx_info", "link.ucx", "1.10.0"),
    run("no-pmix", f"rm {MULTIARCH}/libpmix.so.2*", "link.pmix", "libpmix.so.2 does not load"),
    run("mpi-without-ucx", "sed -i /pml:ucx/d /opt/stack/bin/ompi_info", "link.mpi-fabric", "cm, ob1"),
    extension("old-abi", "ABI=0", "link.cxx-abi", "torch has the new C++ ABI"),
    run("other-mpi-library", library(MULTIARCH, "libmpich.so.12", "mpi.c") +
        f" && MPI_LIBRARY={MULTIARCH}/libmpich.so.12 {FAKE} extension", "link.mpi", "libmpich"),
    run("unresolved", library("/tmp", "libgone.so.1", "mpi.c") + " && gcc -shared -o "
        f"{SITE}/torch/lib/libtorch_extra.so -Wl,--no-as-needed /tmp/libgone.so.1 && rm /tmp/libgone.so.1",
        "link.unresolved", "libgone.so.1"),
    extension("stub-on-path", "RUNPATH=/opt/cuda/lib64/stubs", "link.stub-path", "/opt/cuda/lib64/stubs"),
    extension("no-kernels", "ARCHES=70,80", "declared.gpu-arch", "no kernels for 9.0"),
    run("other-framework", f"sed -i s/2.6.0/2.6.1/ {SITE}/torch/__init__.py {SITE}/horovod/metadata.json",
        "declared.frameworks", "2.6.1"),
    Fault(name="no-import", red=NEEDS_THE_IMPORT, says="horovod.torch: exit code 1",
          instructions=("USER root", f"RUN echo 'raise ImportError(1)' >> {SITE}/horovod/torch/__init__.py",
                        "USER train")),
    extension("no-mpi", "MPI=0", "built.mpi", "without MPI"),
    extension("no-gloo", "GLOO=0", "built.gloo", "without Gloo"),
    extension("no-nccl", "NCCL=0", "built.nccl", "without NCCL"),
    extension("other-nccl", "NCCL=22703", "built.nccl", "22703"),
    extension("no-cuda", "CUDA=0", "built.cuda", "without CUDA"),
    run("other-metadata", f"sed -i s/2.6.0/2.5.1/ {SITE}/horovod/metadata.json", "built.against", "2.5.1"),
    run("other-nvcc", f"sed -i s/12.4/12.8/ {SITE}/horovod/build_info.json", "declared.cuda", "12.8"),
    run("other-compiler", f"sed -i 's/\"gcc\": \"[0-9.]*/\"gcc\": \"12.2.0/' {SITE}/horovod/build_info.json",
        "declared.compiler", "12.2.0"),
    run("no-patch", f"sed -i s/cxx17.patch/other.patch/ {SITE}/horovod/build_info.json",
        "declared.patches", "other.patch"),
    run("cpu-of-the-builder", f"sed -i s/-mavx2/-march=native/ {SITE}/horovod/build_info.json",
        "built.cpu-flags", "-march=native"),
    run("other-cudart", f"sed -i s/12040/12080/ /usr/src/fake/cudart.c && {FAKE} libraries",
        "declared.cuda-runtime", "12.8"),
    run("other-cudnn", f"CUDNN_CODE=90701 {FAKE} libraries", "declared.cudnn", "9.7.1"),
    run("other-nccl-library", f"sed -i s/22105/22703/ /usr/src/fake/nccl.c && {FAKE} libraries",
        "declared.nccl", "2.27.3"),
)  # fmt: skip

COVERED = ("static", "link", "built")
"""Tiers whose every check has a fault here. Collectives need real frameworks: tests/e2e."""

WITHOUT_A_FAULT = {
    "static.scan": "root reads every folder of an image; a unit test covers the rest",
    "declared.python": "another Python would break the probe before the check",
}
NAMES = frozenset(rule.id for rule in RULES if str(rule.tier) in COVERED)
