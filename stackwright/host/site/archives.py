"""A site's own archives of sources: put into a build's context, where its network does not lead to them."""

from __future__ import annotations

import shutil
from pathlib import Path

from stackwright.core.model.row import Recipe
from stackwright.core.render.sources import ARCHIVE


def place(recipe: Recipe, folder: Path | None, context: Path) -> None:
    """Copy the archives that the recipe names and the site's ``folder`` has, next to what names them.

    What is not there is fetched by the step that needs it, which compares the hash in either case.
    """
    for path, content in recipe.files:
        if Path(path).name != ARCHIVE:
            continue
        target = context / Path(path).with_name(content.decode().split()[0])
        target.unlink(missing_ok=True)
        if folder and (folder / target.name).is_file():
            shutil.copyfile(folder / target.name, target)
            target.chmod(0o644)
