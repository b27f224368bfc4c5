"""The tables of the history. A release never changes a migration, it adds one."""

from __future__ import annotations

APPLICATION = 0x53574849
"""SQLite's application_id: "SWHI". `file` shows it."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE build (
            id TEXT NOT NULL PRIMARY KEY, content TEXT NOT NULL,
            row TEXT NOT NULL, key TEXT NOT NULL, lock TEXT NOT NULL,
            started TEXT NOT NULL, finished TEXT, status TEXT NOT NULL
                CHECK (status IN ('complete', 'failed', 'interrupted')),
            phase TEXT NOT NULL, reason TEXT NOT NULL,
            reference TEXT NOT NULL, image TEXT NOT NULL, digest TEXT NOT NULL, base TEXT NOT NULL,
            checks TEXT NOT NULL, stackwright TEXT NOT NULL, engine TEXT NOT NULL,
            cpus INTEGER NOT NULL, memory INTEGER NOT NULL, machine TEXT NOT NULL, os TEXT NOT NULL
        ) STRICT""",
        "CREATE INDEX build_of_row ON build (row, started)",
        """CREATE TABLE tier (
            build TEXT NOT NULL REFERENCES build ON DELETE CASCADE, world TEXT NOT NULL, tier TEXT NOT NULL,
            outcome TEXT NOT NULL CHECK (outcome IN ('passed', 'failed', 'not run')),
            passed INTEGER NOT NULL, failed INTEGER NOT NULL, not_run INTEGER NOT NULL,
            PRIMARY KEY (build, world, tier)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE failed_check (
            build TEXT NOT NULL REFERENCES build ON DELETE CASCADE, world TEXT NOT NULL, name TEXT NOT NULL,
            detail TEXT NOT NULL, PRIMARY KEY (build, world, name)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE size (
            build TEXT NOT NULL REFERENCES build ON DELETE CASCADE,
            kind TEXT NOT NULL CHECK (kind IN ('image', 'sif', 'component')), name TEXT NOT NULL,
            bytes INTEGER NOT NULL CHECK (bytes >= 0), PRIMARY KEY (build, kind, name)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE timing (
            build TEXT NOT NULL REFERENCES build ON DELETE CASCADE, phase TEXT NOT NULL,
            seconds REAL NOT NULL CHECK (seconds >= 0), PRIMARY KEY (build, phase)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE step (
            build TEXT NOT NULL REFERENCES build ON DELETE CASCADE, number INTEGER NOT NULL,
            phase TEXT NOT NULL, name TEXT NOT NULL, identity TEXT NOT NULL,
            cached INTEGER NOT NULL CHECK (cached IN (0, 1)),
            seconds REAL NOT NULL CHECK (seconds >= 0), PRIMARY KEY (build, number)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE declared (
            build TEXT NOT NULL REFERENCES build ON DELETE CASCADE, name TEXT NOT NULL, value TEXT NOT NULL,
            PRIMARY KEY (build, name)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE input (
            key TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
            PRIMARY KEY (key, kind, name)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE run (
            id TEXT NOT NULL PRIMARY KEY, started TEXT NOT NULL, finished TEXT, matrix TEXT NOT NULL,
            locked INTEGER NOT NULL CHECK (locked IN (0, 1)), size_margin REAL NOT NULL,
            time_margin REAL NOT NULL
        ) STRICT""",
        """CREATE TABLE night (
            run TEXT NOT NULL REFERENCES run ON DELETE CASCADE, row TEXT NOT NULL, baseline TEXT NOT NULL,
            state TEXT NOT NULL, key TEXT NOT NULL, build TEXT NOT NULL, document TEXT NOT NULL,
            PRIMARY KEY (run, row)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX night_of_row ON night (row, run)",
        """CREATE TABLE published (
            row TEXT NOT NULL, key TEXT NOT NULL, reference TEXT NOT NULL, digest TEXT NOT NULL,
            tags TEXT NOT NULL, sent INTEGER NOT NULL, present INTEGER NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (row, key, reference)
        ) STRICT, WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE record (
            build TEXT NOT NULL PRIMARY KEY REFERENCES build ON DELETE CASCADE, document TEXT NOT NULL
        ) STRICT""",
        "UPDATE build SET content = ''",  # so that records that are still there are read again
    ),
    ("ALTER TABLE build ADD COLUMN definition TEXT NOT NULL DEFAULT ''",),
)

TABLES = {
    "build": (
        "id", "content", "row", "key", "lock", "started", "finished", "status", "phase", "reason",
        "reference", "image", "digest", "base", "checks", "stackwright", "engine", "cpus", "memory",
        "machine", "os", "definition",
    ),
    "tier": ("build", "world", "tier", "outcome", "passed", "failed", "not_run"),
    "failed_check": ("build", "world", "name", "detail"),
    "size": ("build", "kind", "name", "bytes"),
    "timing": ("build", "phase", "seconds"),
    "step": ("build", "number", "phase", "name", "identity", "cached", "seconds"),
    "declared": ("build", "name", "value"),
    "record": ("build", "document"),
    "input": ("key", "kind", "name", "value"),
    "run": ("id", "started", "finished", "matrix", "locked", "size_margin", "time_margin"),
    "night": ("run", "row", "baseline", "state", "key", "build", "document"),
    "published": ("row", "key", "reference", "digest", "tags", "sent", "present", "at"),
}  # fmt: skip
"""Columns in today's schema, the tables that others refer to before those that do."""

OF_BUILD = ("tier", "failed_check", "size", "timing", "step", "declared", "record")
"""Tables whose rows belong to a build, and are replaced with it."""
