"""Real values that this release does not support: why, and the nearest way. Data, and one look-up.

Without an entry here such a value gets a suggestion by its spelling, which does not help a user who meant it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stackwright.core.components.table import COMMUNICATION, FRAMEWORKS
from stackwright.core.config.own import PLACES
from stackwright.core.model.target import AMD64, ARM64, CUDA

ADDED = "pip|compile"
NAMES = tuple(framework.name for framework in FRAMEWORKS)
LAYER = COMMUNICATION[0].title
NOT_A_PLATFORM = "a platform is an operating system and an architecture"
NAMES_OF_ARM = (
    rf"(?!{ARM64.name}$)({ARM64.os}[/-])?({ARM64.architecture}|{ARM64.machine})(/v8)?|armv8(-a)?|sbsa|grace"
)
NAMES_OF_X86 = rf"(?!{AMD64.name}$)({AMD64.os}[/-])?({AMD64.architecture}|{AMD64.machine}|x86-64)(/v[1-4])?"
OTHER_MACHINES = rf"({AMD64.os}[/-])?(ppc64(le)?|power(9|10)?|s390x|riscv64|i?[36]86|arm(v[67].*|/v[67])?)"
OTHERS = (
    f"images are for {AMD64.title} and {ARM64.title}, the two that the frameworks have wheels with CUDA for"
)
AMD = f"images are for {CUDA.vendor} GPUs: {LAYER} is compiled with nvcc and linked against NCCL"
PACKAGES = (
    "the base of an image is made from Debian's or Ubuntu's packages; the host may run another distribution, "
    "because a container shares no more than its kernel and its driver"
)
USE_DEBIAN = "write os: debian-12 or debian-13, and leave the host as it is"
MPICH_ABI = "it has the ABI of MPICH, so that the site's library can take the place of MPICH's in an image"
MPI_5 = (
    "the ABI of the standard comes with MPICH 5 and Open MPI 6, which no released Debian or Ubuntu has; "
    "Debian 14 will: its testing packages both (its index, read 2026-11-23)"
)
USE_MPICH = 'write mpi: {flavour: mpich, version: "4.2"}, as in the row cuda12-mpich'

USER = 'write the number of a user of yours, and that of its group, as in "20001:20001"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """``field`` is a field of a row, or empty where ``pattern`` is the name of a field that there is not."""

    field: str
    pattern: str
    why: str
    instead: str


def _entry(field: str, pattern: str, why: str, instead: str) -> Entry:
    return Entry(field=field, pattern=pattern, why=why, instead=instead)


ENTRIES = (
    _entry("", "arch|architecture|cpu|machine", "what an image runs on is the field platform",
           f"write platform={ARM64.name}, or leave it out for {AMD64.title}"),
    _entry("platform", NAMES_OF_ARM, NOT_A_PLATFORM, f"write {ARM64.name}"),
    _entry("platform", NAMES_OF_X86, NOT_A_PLATFORM, f"write {AMD64.name}"),
    _entry("platform", OTHER_MACHINES, OTHERS, f"write {AMD64.name} or {ARM64.name}"),
    _entry("platform", r"(windows|darwin|macos)(/.*)?", "images are of Linux", f"write {AMD64.name}"),
    _entry("", "rocm|hip|miopen|rccl", AMD, f"leave it out; gpu_arch names the {CUDA.vendor} GPUs"),
    _entry("", "paddle|paddlepaddle", f"{LAYER} has no extension for it",
           f"a row has {', '.join(NAMES[:-1])} or {NAMES[-1]}"),
    _entry("", "ubuntu|debian|distribution", "the distribution is the field os", "write os=debian-13"),
    *(
        _entry("", alias, f"{framework.title} is the field {framework.name}",
               f"write {framework.name}={release}")
        for framework in (*FRAMEWORKS, *COMMUNICATION)
        for alias, release in framework.aliases
    ),
    _entry("", "openmpi|mpich|mvapich2?|impi|intelmpi", "an MPI library is the field mpi",
           "write it as the value of mpi: openmpi 5.0, mpich 4.2"),
    _entry("os", r"(rocky|almalinux|alma|rhel|centos|oraclelinux|ubi|fedora|amzn|amazonlinux)[-:]?.*",
           PACKAGES, USE_DEBIAN),
    _entry("os", r"(sles|suse|opensuse|leap|arch|gentoo|nixos)[-:]?.*", PACKAGES, USE_DEBIAN),
    _entry("os", r"(alpine|wolfi|chainguard)[-:]?.*",
           "it has musl, and the wheels of the frameworks are made for glibc", "write os: debian-13"),
    _entry("os", r"(windows|macos|darwin)[-:]?.*", "images are of Linux", "write os: debian-13"),
    _entry("mpi", r"mvapich.*", MPICH_ABI, USE_MPICH),
    _entry("mpi", r"(intel|impi|intelmpi|oneapi).*", MPICH_ABI, USE_MPICH),
    _entry("mpi", r"cray.*", MPICH_ABI, USE_MPICH),
    _entry("mpi", r"(mpi[-_]?)?abi.*", MPI_5, USE_MPICH),
    _entry("mpi", r"(mpt|hpe|lam|msmpi|spectrum).*", "an image takes its MPI from the distribution",
           "write openmpi or mpich"),
    _entry("python", r"3\.[0-9]{1,2}t", "it is the build without a global lock; the distributions "
           "package the other one", "write the release without the t"),
    _entry("python", r"3\.[0-9]{1,2}\.[0-9]{1,2}", "the distribution decides on the last number",
           "write two numbers, as in 3.13; plan shows the third"),
    _entry("python", r"pypy.*", "the wheels of the frameworks are for CPython", 'write it as in "3.13"'),
    _entry("gpu_arch", r"gfx[0-9a-f]+", AMD, 'write the NVIDIA GPUs\' capabilities, as in "8.0"'),
    _entry("gpu_arch", r"(sm|compute)_?[0-9]{2,3}[af]?", "a capability is written with a point, and what it "
           "requests is machine code for it", 'write sm_90 as "9.0" and sm_120 as "12.0"'),
    _entry("gpu_arch", r"(?i)(v100|a100|h100|h200|b200|l4|l40s?|a10|t4)", "a capability is a number",
           "T4 is 7.5, V100 7.0, A100 8.0, A10 8.6, L4 and L40 8.9, H100 and H200 9.0, B200 10.0"),
    _entry("fabric", r"(?i)infiniband|ib|roce|rdma|ucx", "it is reached through verbs, which every image has",
           "leave the field out"),
    _entry("fabric", r"(?i)efa|cxi|slingshot|omni-?path|opa|psm[23]?|opx|libfabric|tcp|aws-ofi-nccl",
           "it is a provider of libfabric, or its name", "write fabric: [verbs, ofi]"),
    *(
        _entry("benchmarks", r"(?i)(osu|omb)([-_]?micro[-_]?benchmarks)?(=.*)?",
               "its source was reached nowhere with a hash to compare it with",
               f"run: {layer.measures}, in a row with {layer.title}")
        for layer in COMMUNICATION if layer.measures
    ),
    _entry("benchmarks", r"(?i)(all_?reduce|all_?gather|reduce_?scatter|sendrecv|alltoall)(_perf)?|nccl",
           "it is a program of nccl-tests, or what that measures", "write benchmarks: [nccl-tests]"),
    _entry("provider", r"rocm|amd", AMD, "write provider: debian"),
    _entry("provider", r"ubuntu|ngc|conda", "it makes no base here", "write provider: debian or nvidia"),
    _entry("|".join(NAMES), r"nightly|dev|main|master", "a nightly build stays on "
           "its index for some weeks, and can be in no lock that lasts", "name a release, as in 2.8.0"),
    _entry("|".join(NAMES), r"latest|stable|newest", "a row names a release, so that it "
           "means the same tomorrow", "name a release, as in 2.8.0"),
    _entry("cuda", r"(rocm|hip)-?[0-9.]*", AMD, 'write it as in "12.4"'),
    _entry(ADDED, r"-.*", "an option would change what all other lines mean; the index is the site's "
           "(docs/site.md)", "write requirements only, as in einops>=0.8"),
    _entry(ADDED, r".*(://|@).*", "what an address has today is not what it has tomorrow, and a lock takes "
           "wheels of the package index", "write the name and the version, as in einops==0.8.1"),
    _entry(ADDED, r"[.~/].*|.*[/\\].*|.*\.(whl|zip|tar(\.\w+)?)", "a file is on one machine, and a lock "
           "takes wheels of the package index", "write the name and the version, as in einops==0.8.1"),
    _entry("files.to", r"/opt/(stack|cuda)(/.*)?", "each file there is proven to be a wheel's or a step's",
           "write another folder, as in /opt/ours"),
    _entry("files.to", r"/.*", "what is there belongs to the distribution's packages",
           f"write a folder below {', '.join(PLACES)}"),
    _entry("user", r"(root|0)(:.*)?", "a container that is root by default writes as root to what it mounts",
           "leave it out: the user is train, of the number 1000"),
    _entry("user", r".*:(root|0)", "what root's group may write, such a user may write as well", USER),
    _entry("user", r"([1-9][0-9]{0,2}|65534)(:[0-9]*)?", "the distribution's own users have the numbers "
           "below 1000 and 65534, and a shell that refuses ssh", USER),
    _entry("user", r"[A-Za-z_].*|.*:[A-Za-z_].*", "a name has another number on each cluster, and files have "
           "numbers", USER),
    _entry("apt", r".*[=/].*", "the lock decides on the version, and the site on the mirror",
           "write the name of the package, as in git"),
    _entry("gcc", r"(clang|llvm|icc|icx|nvhpc|nvc\+\+)-?[0-9.]*",
           f"{LAYER} is compiled with gcc, as the wheels were", 'write it as in "13"'),
)  # fmt: skip


def value(field: str, text: str) -> Entry | None:
    """Return the entry about a value of a field, if there is one."""
    about = (entry for entry in ENTRIES if entry.field and field in entry.field.split("|"))
    return next((entry for entry in about if _is(entry, text)), None)


def name(name: str) -> Entry | None:
    """Return the entry about the name of a field that rows do not have."""
    return next((entry for entry in ENTRIES if not entry.field and _is(entry, name)), None)


def _is(entry: Entry, text: str) -> bool:
    return re.fullmatch(entry.pattern, text[:64], re.ASCII) is not None
