"""Everything that builds of some rows download, in one file: made, checked, and served to a build."""
