"""What can go wrong, one exit code per kind. An error says the cause, the place and the next step."""

from __future__ import annotations

from typing import Self

from stackwright.core.facts.build_failures import BuildFailure, Cause


class StackwrightError(Exception):
    """Base of all errors that end a command. ``exit_code`` is documented in docs/cli.md.

    ``cause`` is what went wrong in a sentence, ``details`` are lines below it.
    """

    exit_code = 1
    meaning = "an internal error: please report it"

    def __init__(
        self, cause: str, *, place: str = "", hint: str = "", details: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        super().__init__(cause)
        self.cause, self.place, self.hint, self.details = cause, place, hint, details

    @property
    def known_cause(self) -> Cause | None:
        """The entry of the table of causes that explains it."""
        return None

    @property
    def whole_cause(self) -> str:
        """The cause with its details, as documents in JSON have it."""
        return "\n  ".join((self.cause, *self.details))

    @property
    def first_line(self) -> str:
        """The cause without what another program said below its first line."""
        return self.cause.partition("\n")[0]

    @property
    def headline(self) -> str:
        """The place and the first line of the cause."""
        return f"{self.place}: {self.first_line}" if self.place else self.first_line

    def __str__(self) -> str:
        head = f"{self.place}: {self.whole_cause}" if self.place else self.whole_cause
        return f"{head}\n  next: {self.hint}" if self.hint else head


class InternalError(StackwrightError):
    """A defect of Stackwright."""

    exit_code = StackwrightError.exit_code
    meaning = StackwrightError.meaning


class UsageError(StackwrightError):
    exit_code = 2
    meaning = "the command line is wrong, or it selects no row"


class MatrixError(StackwrightError):
    exit_code = 3
    meaning = "the matrix is wrong"


class LockError(StackwrightError):
    exit_code = 4
    meaning = "a lock is missing, out of date, or could not be made"


class RejectedError(StackwrightError):
    exit_code = 5
    meaning = "a selected row cannot work (rule, clash and nearest row are printed)"


class UnknownError(StackwrightError):
    exit_code = 18
    meaning = "a selected row names a release that no table knows: whether it works is not known"


class EngineError(StackwrightError):
    exit_code = 6
    meaning = "no usable container engine, or the engine failed"


class BuildError(StackwrightError):
    """``failure`` is the same as data; None where no build was under way."""

    exit_code = 7
    meaning = "an image could not be built"
    failure: BuildFailure | None = None

    @classmethod
    def of(cls, failure: BuildFailure) -> Self:
        error = cls(failure.headline, place=failure.place, hint=failure.hint, details=failure.details)
        error.failure = failure
        return error

    @property
    def known_cause(self) -> Cause | None:
        return self.failure.cause if self.failure else None


class VerdictError(StackwrightError):
    exit_code = 8
    meaning = "an image was built and a check of it failed"


class ConvertError(StackwrightError):
    exit_code = 9
    meaning = "an image could not be converted to .sif"


class DiskError(StackwrightError):
    exit_code = 10
    meaning = "not enough free disk"


class SiteError(StackwrightError):
    exit_code = 11
    meaning = "the host's mirror, certificate authority, index or key could not be used"


class RecordError(StackwrightError):
    exit_code = 12
    meaning = "a record is damaged, or could not be written"


class PublishError(StackwrightError):
    exit_code = 13
    meaning = "the registry is unreachable, rejected the upload, or lacks the image"
    away = False
    """The registry said nothing that is final: all patience with it is used up."""


class GateError(StackwrightError):
    exit_code = 14
    meaning = "a row may not be published: a tier did not pass, or it has less than what is published"


class AttestError(StackwrightError):
    exit_code = 15
    meaning = "an image is not what was signed for it, or what is to be signed does not hold"


class DriftError(StackwrightError):
    exit_code = 16
    meaning = "committed files are not those that would be written: of CI, or tables of facts"


class NodesError(StackwrightError):
    exit_code = 17
    meaning = "the nodes of a cluster could not be used, or were lost"


class GpuError(StackwrightError):
    """``cause`` and each of ``details`` is one thing that is missing, in a line."""

    exit_code = 19
    meaning = "no GPU can be used, or what a test on one needs is missing"


class BundleError(StackwrightError):
    exit_code = 20
    meaning = "a bundle is damaged, lacks something, or is not of the row that is to be built"


EXIT_INTERRUPTED = 130
"""Ctrl-C: what was finished is kept, the next run continues from there."""

EXIT_UNREAD = 141
"""What read the output ended first, as `head` does: the code that a shell has for SIGPIPE."""
