"""Keeps the mesh's shared settings in a journal, so that a digest that differs can be explained.

They are public, and the digest is of their text. Journals from before have none.
"""

import json
import sqlite3
from collections.abc import Iterator

from streams.mesh.errors import elided

_SHOWN, _NONE = 3, "none"


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
    both = {
        key: (before.get(key, _NONE), after.get(key, _NONE)) for key in sorted(before.keys() | after.keys())
    }
    apart = [
        f"{key} is {elided(its)}, not {elided(ours)}" for key, (its, ours) in both.items() if its != ours
    ]
    more = [f"and {len(apart) - _SHOWN} more differ"] if len(apart) > _SHOWN else []
    return ", ".join([*apart[:_SHOWN], *more])


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    else:
        yield path, _NONE if value is None else value if isinstance(value, str) else json.dumps(value)
