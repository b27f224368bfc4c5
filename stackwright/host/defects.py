"""Report defects of Stackwright: the traceback goes to a file, which the message names."""

from __future__ import annotations

import tempfile
import traceback

from stackwright.core.errors import InternalError


def internal_error(defect: Exception) -> InternalError:
    """Write the traceback of a defect to a new file, and return the error that names it."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="stackwright-", suffix=".traceback", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(defect, file=file)
    cause = f"internal error: {type(defect).__name__}: {defect}"
    return InternalError(cause, hint=f"please report it, with {file.name}")
