"""Keeps the mesh's shared settings in a journal, so that a digest that differs can be explained.

They are public, and the digest is of their text. Journals from before have none.
"""

import json
import sqlite3
from collections.abc import Iterator

_SHOWN = 3


def keep_agreed(connection: sqlite3.Connection, agreed: str) -> None:
    """Keep the settings if there are none yet; their digest must be the journal's."""
    connection.execute("CREATE TABLE IF NOT EXISTS agreed (settings TEXT NOT NULL)")
    if agreed and read_agreed(connection) is None:
        connection.execute("INSERT INTO agreed VALUES (?)", (agreed,))


def read_agreed(connection: sqlite3.Connection) -> str | None:
    """Return the settings as JSON; None if the journal has none."""
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agreed'")
    row = connection.execute("SELECT settings FROM agreed").fetchone() if there.fetchone() else None
    return None if row is None else str(row[0])


def differing(was: str | None, now: str) -> str:
    """Return `privacy.epsilon is 1, not 2` for the first keys that differ; empty if they are not known."""
    if not was or not now:
        return ""
    before, after = (dict(_leaves("", json.loads(text))) for text in (was, now))
    keys = [
        key
        for key in sorted(before.keys() | after.keys())
        if before.get(key, "none") != after.get(key, "none")
    ]
    more = f", and {len(keys) - _SHOWN} more differ" if len(keys) > _SHOWN else ""
    return (
        ", ".join(
            f"{key} is {before.get(key, 'none')}, not {after.get(key, 'none')}" for key in keys[:_SHOWN]
        )
        + more
    )


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    else:
        yield path, "none" if value is None else value if isinstance(value, str) else json.dumps(value)
