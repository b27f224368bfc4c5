"""A site's own archives of sources: put into a build's context, where its network does not lead to them."""

from __future__ import annotations

import shutil
from pathlib import Path

from stackwright.core.errors import SiteError
from stackwright.core.model.row import Recipe
from stackwright.core.render.sources import ARCHIVE


def named(recipe: Recipe) -> tuple[str, ...]:
    """Return the paths of the archives that a recipe names, each next to what names it."""
    return tuple(
        str(Path(path).with_name(content.decode().split()[0]))
        for path, content in recipe.files
        if Path(path).name == ARCHIVE
    )


def place(recipe: Recipe, folder: Path | None, context: Path, *, all_of_them: bool = False) -> None:
    """Copy the archives that the recipe names and the site's ``folder`` has to their paths in the context.

    What is not there is fetched by the step that needs it, which compares the hash in either case.
    ``all_of_them``: SiteError where one is not there.
    """
    for path in named(recipe):
        target = context / path
        target.unlink(missing_ok=True)
        if folder and (folder / target.name).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / target.name, target)
            target.chmod(0o644)
        elif all_of_them:
            cause = f"{target.name} is not in the site's folder of sources"
            raise SiteError(cause, place=recipe.id, hint="put it there: docs/site.md#sources")
