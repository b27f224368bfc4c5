"""One planted fault per line: what is done to the good image, and the checks that must find it."""

from __future__ import annotations

from dataclasses import dataclass

from stackwright.core.benchmarks import checks as benchmarks
from stackwright.core.checks.judge import RULES
from stackwright.core.components.horovod import attack
from stackwright.core.ofi import checks as ofi

FAKE = "/usr/src/fake/build"
OTHER_GCC = '#!/bin/sh\\ncase $1 in -dump*) echo 12.2.0;; *) exec /usr/bin/gcc "$@";; esac\\n'
RECORDED = "/opt/stack/bin/python /usr/src/record"
"""Wheels that brought these files, and no changed ones."""
SITE = "$(/opt/stack/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
SERVER = "/usr/local/bin/serve-tool"
MULTIARCH = "/usr/lib/x86_64-linux-gnu"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
NEW_CA = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=site -keyout /dev/null -out"


DISTRIBUTED = f"{SITE}/torch/distributed/__init__.py"
CACHING = (
    "\\nmade = compile\\ndef compile(function, **options):\\n"
    '    open(__file__ + ".cache", "w").close()\\n    return made(function, **options)\\n'
)
"""A compiler that keeps something next to itself."""

SECRET = "Vq8tGm2x-hunter2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``instructions``: Dockerfile lines on the good image; ``says`` is all in the details of its ``red``.

    ``extension``: in which way Horovod's extension is compiled again, as words before ``build extension``.
    ``servers``: the fault is in Horovod's servers, so that they have to be attacked anew.
    """

    name: str
    instructions: tuple[str, ...] = ()
    red: frozenset[str]
    says: tuple[str, ...]
    extension: str = ""
    servers: bool = False


def run(name: str, command: str, red: str, says: str) -> Fault:
    """A fault that root plants with a command."""
    lines = ("USER root", f"RUN {command}", "USER train")
    return Fault(name=name, instructions=lines, red=frozenset({red}), says=(says,))


def meta(name: str, instruction: str, red: str, says: str) -> Fault:
    """A fault in what the image says of itself."""
    return Fault(name=name, instructions=(instruction,), red=frozenset({red}), says=(says,))


def extension(name: str, change: str, red: str, says: str) -> Fault:
    """Horovod's extension compiled in another way."""
    return Fault(name=name, extension=change, red=frozenset({red}), says=(says,))


def library(folder: str, name: str, *sources: str) -> str:
    """The command that compiles one more library."""
    return " ".join(("cd /usr/src/fake &&", FAKE, "library", folder, name, *sources))


def load(path: str) -> str:
    """The command that lets the extension's module load a library by its path."""
    return f"echo 'ctypes.CDLL(\"{path}\")' >> {SITE}/horovod/torch/__init__.py"


def metadata(package: str, change: str) -> str:
    return f"sed -i '{change}' {SITE}/{package}*.dist-info/METADATA"


def servers(name: str, command: str, red: frozenset[str], says: str) -> Fault:
    """A fault of Horovod's servers, whose other defences are planted one by one in tests/patches."""
    lines = ("USER root", f"RUN {command}", "USER train")
    return Fault(name=name, instructions=lines, red=red, says=(says,), servers=True)


def compiled(name: str, change: str, red: str, says: str) -> Fault:
    """The extension that the row compiles, made in another way."""
    return run(name, f"{change} {FAKE} compiled", red, says)


def noted(name: str, old: str, new: str, red: str, says: str) -> Fault:
    """Another note in the wheel of what the row compiles."""
    note = f"{SITE}/native-1.0.dist-info/stackwright.json"
    return run(name, f"sed -i 's/{old}/{new}/' {note} && {RECORDED}", red, says)


ATTACKS = frozenset(rule.id for rule in attack.RULES)

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
    Fault(name="index-in-history", red=frozenset({"static.history"}), says=("contains PIP_INDEX_URL",),
          instructions=("ARG PIP_INDEX_URL=http://index.example", "RUN true")),
    Fault(name="site-in-a-deleted-file", red=frozenset({"static.site-layers"}),
          says=("mirror in etc/left of layer",),
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
    Fault(name="user-without-name", red=frozenset({"static.user"}), says=("4711 has no name",),
          instructions=("USER root", "RUN sed -i 's/ caller$//' /etc/nsswitch.conf", "USER 4711")),
    run("no-name-for-a-stranger", "sed -i 's/ caller$//' /etc/nsswitch.conf",
        "static.any-user-name", "user 12345 has no name"),
    run("workspace-of-one-user", "chmod 755 /workspace", "static.any-user-folders",
        "/workspace cannot be written (Permission denied)"),
    run("no-home-is-made", "sed -i 's/^if .*/if false; then/' /usr/local/bin/with-home",
        "static.any-user-folders", "where the root is read-only"),
    run("ssh-for-one-user", "sed -i 's/-o UsePAM=no/& -o AllowUsers=train/' /usr/local/bin/sshd-as-user",
        "static.any-user-ssh", "no command runs over ssh"),
    run("cache-of-one-user", f"chown train {SITE}/torch && printf '{CACHING}' >> {SITE}/torch/__init__.py",
        "link.any-user-compile", "torch/__init__.py.cache"),
    run("tool-with-another-page", f"sed -i 's/^TITLE = .*/TITLE = \"Other\"/' {SITE}/tensorboard/program.py",
        "tool.serves", "TensorBoard answers 200 with the page 'Other'"),
    run("tool-for-everyone",
        f"sed -i 's/start_response(\"401 .*/return application(environ, start_response)/' {SERVER}",
        "tool.closed", "TensorBoard answers 200 to / with no token"),
    run("tool-without-token", f"sed -i 's/{{20,200}}/{{0,200}}/' {SERVER}", "tool.needs-token",
        "TensorBoard starts with an empty token"),
    run("tool-prints-its-token", f"sed -i 's/shown = .*/shown = token/' {SERVER}", "tool.token-hidden",
        "prints the token that it was given"),
    run("tool-on-every-address", f"sed -i 's/\"127.0.0.1\", help/\"0.0.0.0\", help/' {SERVER}",
        "tool.listens", "TensorBoard listens on 0.0.0.0:"),
    run("other-user-module", "printf x >> /usr/local/lib/libnss_caller.so.2",
        "static.user-module", "libnss_caller.so.2 is not what gcc makes"),
    run("no-tini", "rm /usr/bin/tini", "static.init", "no tini"),
    meta("other-user", "USER nobody", "static.user", "'nobody', the row's is train"),
    run("no-program-to-start-with", "chmod -x /opt/ours/start", "static.entrypoint",
        "there is no program /opt/ours/start to start"),
    meta("own-variable", "ENV OURS=b", "static.environment", "OURS is 'b', the row's is 'a b'"),
    run("added-package",
        "sed -i '/^Package: openssl$/,/^$/s/^Version: .*/Version: 1.0-1/' /var/lib/dpkg/status", "added.apt",
        "openssl is 1.0-1"),
    meta("no-entrypoint", 'ENTRYPOINT ["/bin/bash"]', "static.entrypoint", "/bin/bash"),
    run("no-sshd", "rm /usr/sbin/sshd", "static.ssh", "no sshd"),
    Fault(name="no-rdma-provider", red=frozenset({"static.rdma"}), says=("no provider",),
          instructions=("USER root", f"RUN rm -r {MULTIARCH}/libibverbs", "USER train")),
    Fault(name="no-ucx", red=frozenset({"static.rdma"}), says=("libucp",),
          instructions=("USER root", f"RUN rm {MULTIARCH}/libucp.so*", "USER train")),
    run("no-headers", "rm /usr/include/python3*/Python.h", "static.compiler", "no Python.h"),
    run("nvcc-in-runtime", "mkdir -p /usr/local/cuda/bin && printf '#!/bin/sh' > /usr/local/cuda/bin/nvcc && "
        "chmod +x /usr/local/cuda/bin/nvcc", "static.nvcc", "/usr/local/cuda/bin/nvcc"),
    meta("no-require-cuda", "ENV NVIDIA_REQUIRE_CUDA=", "static.environment", "NVIDIA_REQUIRE_CUDA is ''"),
    Fault(name="variables", red=frozenset({"static.environment"}),
          says=("sets NCCL_P2P_DISABLE", "sets HOROVOD_CACHE_CAPACITY", "sets OMPI_MCA_btl", "sets UCX_TLS",
                "sets WORLD_SIZE", "sets CUDA_VISIBLE_DEVICES", "sets PYTHONPATH", "sets LD_PRELOAD",
                "'void', the row's is 'all'"),
          instructions=("ENV NCCL_P2P_DISABLE=1 HOROVOD_CACHE_CAPACITY=0 OMPI_MCA_btl=tcp UCX_TLS=tcp",
                        "ENV WORLD_SIZE=1 CUDA_VISIBLE_DEVICES=none PYTHONPATH=/srv/none",
                        "ENV LD_PRELOAD=libm.so.6 NVIDIA_VISIBLE_DEVICES=void")),
    Fault(name="was-set-once", red=frozenset({"static.environment", "static.history"}),
          says=("sets NCCL_DEBUG",), instructions=("ENV NCCL_DEBUG=INFO", "ENV NCCL_DEBUG=")),
    Fault(name="credentials", red=frozenset({"static.credentials"}),
          says=("Env/DB_PASSWORD holds a password", "history/lines/", "com.example.mirror"),
          instructions=(f"ENV DB_PASSWORD={SECRET}", f"ARG REGISTRY_TOKEN={SECRET}", "RUN true",
                        f"LABEL com.example.mirror=https://build:{SECRET}@mirror.example/debian")),
    Fault(name="labels-and-folder", red=frozenset({"static.labels", "static.workdir"}),
          says=("maintainer is not the row's", "elsewhere.example", "'/tmp'"),
          instructions=("LABEL maintainer=someone org.opencontainers.image.source=https://elsewhere.example",
                        "WORKDIR /tmp")),
    Fault(name="entrypoint-and-command", red=frozenset({"static.entrypoint"}),
          says=("env A=1", "the command is /bin/sh"),
          instructions=('ENTRYPOINT ["/usr/bin/tini", "--", "/usr/bin/env", "A=1"]', 'CMD ["/bin/sh"]')),
    Fault(name="settings", red=frozenset({"static.settings"}),
          says=("OnBuild is ['RUN touch /planted']", "Volumes is /data", "ExposedPorts is 22/tcp",
                "Healthcheck is", "StopSignal is SIGKILL", "Shell is ['/bin/sh', '-c']"),
          instructions=("ONBUILD RUN touch /planted", "VOLUME /data", "EXPOSE 22", "HEALTHCHECK CMD true",
                        "STOPSIGNAL SIGKILL", 'SHELL ["/bin/sh", "-c"]')),
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
    run("other-gcc", f"printf '{OTHER_GCC}' > /usr/local/bin/gcc && chmod +x /usr/local/bin/gcc",
        "declared.gcc", "12.2.0"),
    run("other-mpi", "sed -i s/5.0.7/4.1.4/ /opt/stack/bin/mpirun", "declared.mpi", "4.1.4"),
    run("other-horovod", metadata("horovod", "s/^Version: .*/Version: 0.27.0/"),
        "declared.horovod", "0.27.0"),
    run("other-package", metadata("filelock", "s/^Version: .*/Version: 1.0/"),
        "declared.packages", "filelock is 1.0"),
    run("extra-package", f"cp -r {SITE}/filelock-*.dist-info {SITE}/extra-1.0.dist-info && "
        + metadata("extra", "s/^Name: .*/Name: extra/"), "declared.packages", "the lock has none"),
    run("lost-package", f"rm -r {SITE}/filelock-*.dist-info", "declared.packages", "filelock is absent"),
    Fault(name="other-libc", red=frozenset({"declared.distribution"}),
          says=("libc6 is 2.0-1",), instructions=(
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
    Fault(name="no-import", red=frozenset({"link.import"}), says=("horovod.torch: exit code 1",),
          instructions=("USER root", f"RUN echo 'raise ImportError(1)' >> {SITE}/horovod/torch/__init__.py",
                        "USER train")),
    run("no-extension", f"rm {SITE}/horovod/torch/mpi_lib_v2*", "link.import", "its extension does not load"),
    run("no-libmpi", f"rm {MULTIARCH}/libmpi.so.40", "link.unresolved", "libmpi.so.40"),
    run("torch-of-the-user", f"mkdir -p /srv/more && cp -r {SITE}/torch /srv/more && "
        f"echo 'import sys; sys.path.insert(0, \"/srv/more\")' > {SITE}/more.pth",
        "link.origin", "torch is imported from /srv/more/torch/__init__.py"),
    run("horovod-before-ours", f"mkdir -p /srv/more && cp -r {SITE}/horovod /srv/more && "
        f"echo 'import sys; sys.path.insert(0, \"/srv/more\")' > {SITE}/more.pth",
        "link.origin", "horovod.torch is imported from /srv/more/horovod"),
    run("second-libmpi", library("/usr/local/lib", "libmpi.so.40", "mpi.c") + " && ldconfig",
        "link.mpi", "/usr/local/lib/libmpi.so.40, which is not mpirun's"),
    run("changed-nccl", f"echo more >> {SITE}/nvidia/nccl/lib/libnccl.so.2", "declared.nccl",
        "is not as nvidia-nccl"),
    run("changed-cudnn", f"echo more >> {SITE}/nvidia/cudnn/lib/libcudnn.so.9", "declared.cudnn",
        "is not as nvidia-cudnn"),
    run("preloaded-cudart", library("/usr/local/lib", "libcudart.so.12", "cudart.c") +
        " && echo /usr/local/lib/libcudart.so.12 > /etc/ld.so.preload",
        "declared.cuda-runtime", "/usr/local/lib/libcudart.so.12, which no wheel brought"),
    Fault(name="programs-that-do-not-work",
          says=("cc1plus", "ssh refuses", "libibverbs.d names no driver for", "starts no"),
          red=frozenset({"static.compiler", "static.ssh", "static.rdma", "static.init"}),
          instructions=("USER root", "RUN rm /usr/libexec/gcc/*/*/cc1plus /etc/libibverbs.d/* && "
                        "echo NoSuchOption yes >> /etc/ssh/ssh_config && truncate --size 0 /usr/bin/tini",
                        "USER train")),
    Fault(name="parts-that-are-gone", says=("g++ compiles no extension", "sshd refuses", "libmlx5-rdmav"),
          red=frozenset({"static.compiler", "static.ssh", "static.rdma"}),
          instructions=("USER root", "RUN rm /usr/include/c++/*/string /etc/libibverbs.d/mlx5.driver && "
                        "echo Port many >> /etc/ssh/sshd_config", "USER train")),
    run("addition-does-not-import", f"echo 'raise ImportError(\"planted\")' >> {SITE}/addition/__init__.py",
        "added.import", "addition: addition: exit code 1: ImportError: planted"),
    run("addition-of-the-user", f"mkdir -p /srv/more && cp -r {SITE}/addition /srv/more && "
        f"echo 'import sys; sys.path.insert(0, \"/srv/more\")' > {SITE}/more.pth",
        "added.origin", "addition of addition is imported from /srv/more/addition/__init__.py"),
    run("addition-lacks-another", metadata("addition", "s/^Version: .*/&\\nRequires-Dist: no-such-package/"),
        "added.together", "requires no-such-package, which is not installed"),
    run("addition-replaces-a-file",
        f"echo torch/__init__.py,sha256=other, >> {SITE}/addition-1.0.dist-info/RECORD",
        "added.replaced", "torch/__init__.py is in addition and in torch with other content"),
    run("addition-hides-a-program", "cp /usr/bin/ssh /opt/stack/bin/ssh && "
        f"echo ../../../bin/ssh,, >> {SITE}/addition-1.0.dist-info/RECORD",
        "added.hides", "/opt/stack/bin/ssh of addition is found before /usr/bin/ssh"),
    run("addition-replaces-a-module",
        "echo 'import sys, types; sys.modules[\"torch\"] = types.ModuleType(\"torch\")' >> "
        f"{SITE}/addition/__init__.py", "added.hides", "importing addition of addition replaces torch"),
    run("addition-at-startup", f"echo 'import os' > {SITE}/addition.pth && "
        f"echo addition.pth,, >> {SITE}/addition-1.0.dist-info/RECORD",
        "added.startup", "addition.pth of addition is run by every Python"),
    run("no-pip", f"rm -r {SITE}/pip", "added.together", "pip check gave no answer"),
    noted("compiled-from-another-source", "c0c0c0", "d0d0d0", "compiled.source", "was compiled from d0d0d0"),
    noted("compiled-against-another-torch", '"torch": "2.6.0"', '"torch": "2.7.0"', "compiled.against",
          "against torch 2.7.0, the image has 2.6.0"),
    noted("compiled-for-the-builder", "-mavx2", "-march=native", "compiled.cpu-flags",
          "native was compiled with -march=native"),
    run("compiled-by-no-gcc", f"objcopy --remove-section .comment {SITE}/native/_C.so && {RECORDED}",
        "compiled.compiler", "native/_C.so was compiled by gcc of no name"),
    compiled("compiled-for-one-gpu", "ARCHES=70", "compiled.gpu-code", "has no code for 8.0, 9.0"),
    compiled("compiled-for-another-release", "LACKS=1", "compiled.loads",
             "undefined symbol: of_another_release"),
    compiled("compiled-with-another-mpi", library("/opt/mpi/lib", "libmpi.so.40", "mpi.c") +
             " && MPI_LIBRARY='/opt/mpi/lib/libmpi.so.40 -Wl,-rpath,/opt/mpi/lib'", "compiled.mpi",
             "loads /opt/mpi/lib/libmpi.so.40, which is not mpirun's"),
    run("addition-unresolved", library("/tmp", "libplanted.so.1", "mpi.c") + " && gcc -shared -o "
        f"{SITE}/addition/native.so -Wl,--no-as-needed /tmp/libplanted.so.1 && rm /tmp/libplanted.so.1",
        "added.libraries", "addition/native.so needs libplanted.so.1"),
    run("no-openmp", "rm /usr/lib/gcc/*/*/include/omp.h", "link.compile", "omp.h"),
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
    run("other-cudart", f"sed -i s/12040/12080/ /usr/src/fake/cudart.c && {FAKE} libraries && {RECORDED}",
        "declared.cuda-runtime", "12.8"),
    run("other-cudnn", f"CUDNN_CODE=90701 {FAKE} libraries && {RECORDED}", "declared.cudnn", "9.7.1"),
    run("distributed-without-gloo", "sed -i '/is_gloo/,/return/s/True/False/' " + DISTRIBUTED,
        "distributed.backends", "it has no gloo"),
    run("distributed-of-other-nccl", f"sed -i 's/(2, 21, 5)/(2, 20, 5)/' {SITE}/torch/cuda/nccl.py",
        "distributed.nccl", "compiled with NCCL 2.20.5"),
    run("distributed-without-nccl", "sed -i 's/^REASON = .*/REASON = \"Unknown backend\"/' " + DISTRIBUTED,
        "distributed.nccl-backend", "ValueError: Unknown backend"),
    run("mpi4py-of-another-mpi", f"sed -i 's/v5.0.7/v4.1.4/' {SITE}/mpi4py/MPI.py", "mpi4py.library",
        "mpi4py loads openmpi 4.1.4"),
    run("deepspeed-of-another-pytorch", f"sed -i 's/\"2.6\"/\"2.5\"/' {SITE}/deepspeed/git_version_info.py",
        "deepspeed.against", "compiled against version 2.5"),
    run("deepspeed-operator-does-not-load",
        f"sed -i 's/\"\"\"The real one.*/raise ImportError(\"planted\")/' "
        f"{SITE}/deepspeed/ops/op_builder/all_ops.py",
        "deepspeed.operators", "fused_adam: ImportError: planted"),
    run("jax-of-another-release", f"sed -i s/0.12.0.1/0.11.2/ {SITE}/jaxlib/version.py", "jax.parts",
        "jaxlib is 0.11.2, and the row's JAX is 0.12.0.1"),
    run("jax-built-with-newer-cudnn", f"sed -i 's/(90100, /(91200, /' {SITE}/jax_cuda12_plugin/_versions.py",
        "jax.libraries", "built with cuDNN 91200, and loads 90100"),
    run("jax-without-its-backend", f"sed -i 's/^REASON = .*/REASON = \"UNKNOWN: no such plugin\"/' "
        f"{SITE}/jaxlib/xla_client.py", "jax.cuda-backend", "says: RuntimeError: UNKNOWN: no such plugin"),
    run("jax-of-another-compiler", f"sed -i 's/release 12.4/release 12.9/' {SITE}/nvidia/cuda_nvcc/bin/ptxas",
        "jax.compiler", "ptxas of CUDA 12.9, and the lock has 12.4.131"),
    servers("horovod-as-released", f"cd {SITE}/horovod && rm -r runner && cp -r /usr/src/released runner",
            ATTACKS - {"built.served"}, "a pickle was executed (unsigned)"),
    servers("nobody-is-served", f"sed -i 's/    if nonce is None and .*:/    if True:/' "
            f"{SITE}/horovod/runner/http/http_auth.py", frozenset({"built.served"}),
            "rendezvous: RuntimeError"),
    run("other-nccl-library", f"sed -i s/22105/22703/ /usr/src/fake/nccl.c && {FAKE} libraries && {RECORDED}",
        "declared.nccl", "2.27.3"),
)  # fmt: skip

COVERED = ("static", "link", "built")
"""Tiers whose every check has a fault here. Collectives need real frameworks: tests/e2e."""

WITHOUT_A_FAULT = {
    "static.scan": "root reads every folder of an image; a unit test covers the rest",
    "ledger.read": "an image without dpkg or without wheels has no row; a unit test empties the lists",
    "declared.python": "another Python would break the probe before the check",
    **dict.fromkeys(
        (rule.id for rule in ofi.RULES), "the image has no plugin: tests/engine/test_ofi_faults.py"
    ),
    **dict.fromkeys(
        (rule.id for rule in benchmarks.RULES),
        "the image has no program: tests/engine/test_benchmark_faults.py",
    ),
}
NAMES = frozenset(rule.id for rule in RULES if str(rule.tier) in COVERED and "docker" in rule.worlds)
