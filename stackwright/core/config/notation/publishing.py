"""The notation of ``publish``: templates of tags, and tags that lead to several images."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import MaxLen, MinLen
from pydantic import FailFast, Field
from typing_extensions import TypedDict

from stackwright.core.config.notation.text import ID, MAX_PATTERNS, STRICT, Notation
from stackwright.core.model.target import PLATFORMS

PLACE = r"\{row\}|\{date\}|\{key(:\.[1-9][0-9]?)?\}"
"""What a template of a tag has in braces, in the notation of Python's str.format."""
TEMPLATES = {
    "tags": Notation(rf"({PLACE}|[A-Za-z0-9_.-]){{1,100}}", "{row}-{date}"),
    "moving": Notation(rf"({PLACE}|[A-Za-z0-9_.-]){{1,100}}", "{row}"),
    "repository": Notation(rf"({PLACE}|[a-z0-9_./-]){{1,100}}", "{row}"),
    "set": Notation(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", "all"),
}
"""Keys of ``publish``. What comes of a template is matched again, whole, against the grammar of OCI."""

OF_PLATFORMS = {"platforms.tag": TEMPLATES["set"], "platforms.rows": ID}
"""Strings of ``publish.platforms``: a tag, and rows, one for each platform."""

RequiredTier = Literal["static", "link", "built", "collective", "gpu"]


class PlatformTagFields(TypedDict):
    """One tag for rows of several platforms: both keys are needed."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    tag: Annotated[str, OF_PLATFORMS["platforms.tag"]]
    rows: Annotated[
        tuple[Annotated[str, OF_PLATFORMS["platforms.rows"]], ...],
        MinLen(1),
        MaxLen(len(PLATFORMS)),
        FailFast(),
    ]


class PublishFields(TypedDict, total=False):
    """How rows go to the registry."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    require: Annotated[
        tuple[RequiredTier, ...],
        MinLen(1),
        FailFast(),
        Field(description="Tiers that must have passed, in each world that is published."),
    ]
    repository: Annotated[
        str,
        TEMPLATES["repository"],
        Field(description="Below the site's; else all rows share that one."),
    ]
    tags: Annotated[
        tuple[Annotated[str, TEMPLATES["tags"]], ...],
        FailFast(),
        Field(description="Tags that stay with this image: {row}, {date}, {key}, {key:.12}."),
    ]
    moving: Annotated[
        tuple[Annotated[str, TEMPLATES["moving"]], ...],
        MinLen(1),
        FailFast(),
        Field(description="Tags that move from yesterday's image to this one, last and together."),
    ]
    set: Annotated[
        str, TEMPLATES["set"], Field(description="One tag for all rows together: an index of their images.")
    ]
    platforms: Annotated[
        tuple[PlatformTagFields, ...],
        MaxLen(MAX_PATTERNS),
        FailFast(),
        Field(description="Tags that lead each host to the row of its platform: an index of their images."),
    ]
