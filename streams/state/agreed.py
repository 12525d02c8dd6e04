"""Keeps the mesh's shared settings in a journal, so that a digest that differs can be explained.

They are public, and the digest is of their text.
"""

import json
import sqlite3
from collections.abc import Iterator

from streams.mesh.errors import elided
from streams.state.checksums import check_row, checksum

_SHOWN, _NONE = 3, "none"


AGREED_TABLE = "agreed (settings TEXT NOT NULL, checksum INTEGER NOT NULL)"


def keep_agreed(connection: sqlite3.Connection, agreed: str) -> None:
    """Keep the settings in a new journal, of whose digest they are the text."""
    connection.execute("INSERT INTO agreed VALUES (?, ?)", (agreed, checksum(agreed)))


def read_agreed(connection: sqlite3.Connection) -> str:
    """Return the settings as JSON; empty if the journal was created without. Raises ValueError."""
    row = connection.execute("SELECT settings, checksum FROM agreed").fetchone()
    if row is None:
        raise ValueError("it is broken: it does not say by which settings it was made")
    check_row(row, "its settings (agreed)")
    return str(row[0])


def differing(was: str, now: str) -> str:
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
