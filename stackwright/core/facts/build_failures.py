"""Failures of a build as values, and those with a known cause: what the log shows, and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SHOWN_TAIL = 12
"""Last lines of a failed step that a person is shown; the log has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """``subject`` finds what it is about in the log's lines, as the name of a package."""

    name: str
    pattern: str
    cause: str
    change: str
    source: str
    subject: str = ""


CAUSES = (
    Cause(
        name="disk-full",
        pattern=r"No space left on device|ENOSPC|disk quota exceeded",
        cause="the disk is full",
        change="free some: ./build.py clean shows what can go",
        source="errno 28",
    ),
    Cause(
        name="certificate",
        pattern=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL certificate problem"
        r"|x509: certificate signed by unknown authority",
        cause="a certificate of the site is not trusted inside the build",
        change="name the bundle with the site's certificate authority in STACKWRIGHT_CA_BUNDLE",
        source="OpenSSL's and Go's own messages",
    ),
    Cause(
        name="hash-mismatch",  # before the next one: apt calls it a failure to fetch as well
        pattern=r"THESE PACKAGES DO NOT MATCH THE HASHES|Hash Sum mismatch",
        cause="a downloaded file is not the one that was locked",
        change="if the index really serves another file now, lock again and read the diff",
        source="pip's and apt's own messages",
        subject=r"^ +(?P<pip>[A-Za-z0-9][\w.-]*(==\S+)?) from \S+ \(from -r "
        r"|(?P<apt>[\w.+%~-]+\.deb) +Hash Sum mismatch",
    ),
    Cause(
        name="source-unreachable",  # its lines have a message of the next one as well
        pattern=r"ERROR: \S+\.tar\.gz cannot be fetched",
        cause="the repository of a source was not reached",
        change="put the archive into the site's folder of sources: docs/site.md#sources",
        source="scripts/build-ofi-plugin.sh, scripts/build-nccl-tests.sh",
        subject=r"ERROR: (?P<source>\S+\.tar\.gz) cannot be fetched",
    ),
    Cause(
        name="source-differs",
        pattern=r"ERROR: \S+\.tar\.gz is not the source of release",
        cause="the archive of a source is not that of its release",
        change="take the one that the repository has for the tag; that of a release page has other files",
        source="scripts/build-ofi-plugin.sh, scripts/build-nccl-tests.sh",
        subject=r"ERROR: (?P<source>\S+\.tar\.gz) is not the source",
    ),
    Cause(
        name="mirror-unreachable",
        pattern=r"Temporary failure resolving|Could not connect to|Unable to locate package"
        r"|Failed to fetch http|Could not resolve host|Name or service not known"
        r"|NewConnectionError|Connection timed out",
        cause="the distribution's mirror or the package index was not reached, or no longer has a file",
        change="./build.py doctor says which mirror is used; ./build.py lock asks for today's versions",
        source="apt's, pip's and curl's own messages",
    ),
    Cause(
        name="cxx17",
        pattern=r"You need C\+\+17 to compile PyTorch|C\+\+17 or later compatible compiler is required"
        r"|#error .*C\+\+17",
        cause="this PyTorch needs C++17, and Horovod was compiled as C++14",
        change="the patch cxx17.patch must apply: see `when` in patches/horovod/series.yaml",
        source="horovod master 3a31d933 (#3998)",
    ),
    Cause(
        name="gloo-standard",
        pattern=r"multiple definition of .gloo::rendezvous::Store::kDefaultTimeout",
        cause="gloo was compiled as C++14 and the extension as C++17",
        change="one standard for the whole tree: cxx17.patch",
        source="seen with PyTorch 2.6.0 and gcc 13",
    ),
    Cause(
        name="stdexcept",
        pattern=r".logic_error. is not a member of .std.|.string. in namespace .std. does not name a type"
        r"|.runtime_error. is not a member of .std.",
        cause="gcc 13 and later no longer include <stdexcept> and <string> by way of other headers",
        change="the patch gcc13-includes.patch must apply: see `when` in patches/horovod/series.yaml",
        source="horovod master ff4ca09d (#3957)",
    ),
    Cause(
        name="cmake4",
        pattern=r"Compatibility with CMake < 3\.5 has been removed",
        cause="CMake 4 refuses what Horovod's gloo asks for",
        change="set CMAKE_POLICY_VERSION_MINIMUM=3.5, as scripts/build-horovod.sh does",
        source="horovod master 092e5f50",
    ),
    Cause(
        name="xla-headers",
        pattern=r"tensorflow/compiler/xla/client/xla_builder\.h: No such file",
        cause="TensorFlow 2.19 moved the XLA headers",
        change="a patch for this TensorFlow is missing in patches/horovod/series.yaml",
        source="horovod PR #4314",
    ),
    Cause(
        name="xla-statusor",
        pattern=r".StatusOr. (in namespace .xla.|is not a member of .xla.)",
        cause="TensorFlow 2.18 replaced xla::StatusOr by absl::StatusOr",
        change="a patch for this TensorFlow is missing in patches/horovod/series.yaml",
        source="horovod PR #4302",
    ),
    Cause(
        name="setuptools",
        pattern=r"cannot import name .packaging. from .pkg_resources."
        r"|this PyTorch installation does not support CUDA",
        cause="setuptools 70 and later lack pkg_resources.packaging, which PyTorch up to 2.0 imports;"
        " Horovod reads that as a PyTorch without CUDA",
        change="setuptools below 70 in the row's lock",
        source="horovod #4051",
    ),
    Cause(
        name="unsupported-gcc",
        pattern=r"unsupported GNU version! gcc versions later than",
        cause="nvcc refuses this gcc",
        change="./build.py plan names the newest gcc for each CUDA",
        source="CUDA's host_config.h",
    ),
    Cause(
        name="cuda-mismatch",
        pattern=r"detected CUDA version .* mismatches the version that was used to compile"
        r"|Installed CUDA version \S+ does not match the version torch was compiled with",
        cause="the row's nvcc is of another CUDA than its PyTorch, which the source refuses",
        change="name a `cuda` in the row that is its PyTorch's; ./build.py plan shows both",
        source="torch.utils.cpp_extension and DeepSpeed's op_builder",
    ),
    Cause(
        name="no-nvcc",
        pattern=r"CUDA_HOME environment variable is not set|nvcc was not found"
        r"|No such file or directory: '\S*/nvcc'|nvcc: (command )?not found",
        cause="a source looks for the compiler of CUDA where it is not",
        change="set what it reads as `env` of its entry in `compile`; CUDA_HOME is set",
        source="torch.utils.cpp_extension and flash-attn's setup.py",
    ),
    Cause(
        name="unsupported-arch",
        pattern=r"nvcc fatal *: Unsupported gpu architecture",
        cause="a source has a list of architectures of its own, which the row's nvcc does not know",
        change="compile a newer release, or set its own variable as `env` of its entry in `compile`",
        source="nvcc's message",
    ),
    Cause(
        name="other-torch",
        pattern=r"THC/\w+\.h: No such file|is not a member of .(at|c10|torch)\b|.(AT_CHECK|THCState). was not"
        r" declared|struct at::\w+. has no member named|class at::\w+. has no member named",
        cause="the source was written for another release of PyTorch",
        change="name a release of it in `compile` that is for the row's PyTorch",
        source="gcc's messages about the headers of PyTorch",
    ),
    Cause(
        name="build-requirement",
        pattern=r"ModuleNotFoundError: No module named|pip's --no-build-isolation|BackendUnavailable",
        cause="a source is compiled with a package that it does not name",
        change="name that package in `needs` of its entry in `compile`, and lock again",
        source="Python's message in a build without isolation",
    ),
    Cause(
        name="missing-header",
        pattern=r"fatal error: \S+: No such file or directory",
        cause="a header is missing: of a library that neither the row's packages nor its base bring",
        change="see the log for its name; another release, or another variable in `env`, may do without it",
        source="gcc's message",
    ),
    Cause(
        name="out-of-memory",
        pattern=r"Killed signal terminated program cc1plus|fatal error: Killed signal|exit code: 137",
        cause="the kernel stopped the compiler: too little memory",
        change="fewer compilers at once: --jobs 1, or MAKEFLAGS=-j1 in scripts/build-horovod.sh",
        source="gcc's message after SIGKILL",
    ),
)


def known_cause(lines: Iterable[str]) -> Cause | None:
    """Return the first cause of the table that the log shows."""
    text = "\n".join(lines)
    return next((cause for cause in CAUSES if re.search(cause.pattern, text)), None)


def subject(cause: Cause | None, lines: Iterable[str]) -> str:
    """Return what the cause is about, as the log names it; empty where it names nothing."""
    if cause is None or not cause.subject:
        return ""
    found = (match for line in lines for match in re.finditer(cause.subject, line))
    return ", ".join(dict.fromkeys(next(filter(None, match.groupdict().values())) for match in found))


def cause_named(name: str) -> Cause | None:
    """Return the cause that a record names; None for one that is not in the table any more."""
    return next((cause for cause in CAUSES if cause.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailure:
    """Why a row could not be built. ``step`` is empty where none had begun.

    ``message`` is what the failed program said itself, in a line, and ``tail`` what it printed last.
    ``advice`` is the next step where the cause is not known, ``subject`` what a known one is about.
    """

    row: str
    step: str
    message: str
    cause: Cause | None
    tail: tuple[str, ...]
    log: Path | None
    advice: str
    subject: str = ""

    @property
    def place(self) -> str:
        return f"{self.row}: {self.step}" if self.step else self.row

    @property
    def headline(self) -> str:
        if self.cause is None:
            return self.message
        about = f": {self.subject}" if self.subject else ""
        return f"{self.cause.cause}{about} ({self.cause.source})"

    @property
    def hint(self) -> str:
        return self.cause.change if self.cause else self.advice

    @property
    def details(self) -> tuple[str, ...]:
        shown = ("its last lines:", *(f"  {line}" for line in self.tail)) if self.tail else ()
        return (*shown, *((f"the whole log: {self.log}",) if self.log else ()))


def last_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that a person is shown."""
    return tuple([line for line in lines if line.strip()][-SHOWN_TAIL:])
