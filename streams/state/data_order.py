"""Keeps the choice and order of a run's records in its state folder, from the run's beginning.

A journal's position counts records in their order; in another order some would be learnt from twice. Only
settings and the sizes of files are kept, as a hash of records would reveal something of them without noise.
So a shorter file is noticed; that its content stays the same is the owner's task.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streams.mesh.errors import ABSENT, MeshFileError, UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.privacy import TimeSlots
from streams.state.folder import JournalError, StateFolder, place_of, write_private
from streams.state.journal_reader import JournalReader
from streams.state.spends import all_spends

_SETTINGS = ("kind", "name", "path", "rows", "split", "columns", "shuffle", "take")
_AGAIN = "some records would be learnt from twice"


def keep_order(state: Path, file: MeshFile, seed: int) -> None:
    """Keep the choice and order of the records of the file's run, or compare it with what was kept.

    Raises MeshFileError or UsageError if the run would go on with other records or order; JournalError.
    """
    kept, run = _kept(state), file.mesh.run
    began = kept.get(run)
    if began is None and _has_journal(state, file):
        raise _unknown(state, run)
    now: dict[str, Any] = {"seed": seed, "nodes": {name: _chosen(file, name) for name in file.mesh.nodes}}
    if file.mesh.slots.by == "time":
        now["order"] = "time"
    if began is not None:
        if began != now and _has_learnt(state, file):
            _check(state, file, began, now)
        now["nodes"] = began["nodes"] | now["nodes"]  # a node that is away now may be back later
    if began != now:
        content = json.dumps(kept | {run: now}, indent=1)
        write_private(StateFolder(state).order, lambda _: f"{content}\n")


def _has_learnt(state: Path, file: MeshFile) -> bool:
    """Return whether the file's run has learnt from any record. Raises JournalError."""
    spends = (spend for name in file.mesh.nodes for spend in all_spends(state, name))
    return any(spend.charged for spend in spends if spend.run == file.mesh.run)


def runs_in_order(state: Path, file: MeshFile, node: str) -> set[str]:
    """Return the runs in the folder that read a node's records in the same order as the file's run."""
    kept = _kept(state)
    now = kept[file.mesh.run]
    return {run for run, one in kept.items() if _places(one, node) == _places(now, node)}


def _places(kept: Mapping[str, Any], node: str) -> tuple[object, ...]:
    found = kept["nodes"].get(node, {})
    chosen = {key: value for key, value in found.items() if key != "size" or found.get("shuffle")}
    return kept["seed"], kept.get("order"), chosen


def _chosen(file: MeshFile, node: str) -> dict[str, Any]:
    """Return the settings that choose and order a node's records, by key, and its file's size in bytes."""
    source = file.own(node).source
    given: dict[str, Any] = {} if source is None else source.model_dump(mode="json")
    found = {key: given[key] for key in _SETTINGS if given.get(key) is not None}
    if isinstance(file.mesh.slots, TimeSlots) and "record" in given:
        found["schema.timestamp"] = given["record"]["timestamp"]
    path = found.get("path")
    if path not in {None, "-"}:
        found["path"] = os.path.realpath(path)
        found["size"] = _size(found["path"])
    return found


def _size(path: str) -> int | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None  # opening it reports that
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _check(state: Path, file: MeshFile, began: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if began["seed"] != now["seed"]:
        raise UsageError(
            f"--seed is {now['seed']}: must be {began['seed']}, as when {state} was begun; in another order "
            f"of the data {_AGAIN}"
        )
    for node, was in began["nodes"].items():
        found = now["nodes"].get(node)
        if found is None:
            continue  # other members: the digest or the journals report that
        for key in dict.fromkeys((*was, *found)):
            if key != "size" and was.get(key) != found.get(key):
                raise _refused(file, node, key, f"was {_shown(was.get(key))}", state, found.get(key, ABSENT))
        _check_size(state, file, node, was, found)


def _check_size(
    state: Path, file: MeshFile, node: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    before, after = was.get("size"), now.get("size")
    if before is None or after is None or after == before:
        return
    if after < before:
        raise _refused(file, node, "path", f"has {after:,} bytes, and had {before:,}", state, now["path"])
    if now.get("shuffle"):
        text = "has grown, and more lines have another order; it was shorter"
        raise _refused(file, node, "path", text, state, now["path"])


def _refused(file: MeshFile, node: str, key: str, was: str, state: Path, value: object) -> MeshFileError:
    text = f"{was} when {_again(file, state, 'must be that again, or ')}"
    return file.refuse(("nodes", node, "source", *key.split(".")), text, value)


def _again(file: MeshFile, state: Path, way: str = "") -> str:
    begun = f"run {file.mesh.run} was begun in {state}: {_AGAIN}"
    return f"{begun}; {way}the mesh needs a new run name (the new run counts what was spent)"


def _shown(value: object) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)


def _kept(state: Path) -> dict[str, Any]:
    """Return what was kept of all runs in the folder. Raises UsageError if it is broken."""
    path = StateFolder(state).order
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        found = None
    whole = isinstance(found, dict) and all(
        isinstance(one, dict) and isinstance(one.get("nodes"), dict) and "seed" in one
        for one in found.values()
    )
    if not whole:
        raise UsageError(f"{path}: is broken: in which order the records were read is not known")
    return dict(found)


def _has_journal(state: Path, file: MeshFile) -> bool:
    """Return whether a journal of the file's run would continue; a copy begins anew, and counts twice."""
    for path in (StateFolder(state).journal(name) for name in file.mesh.nodes):
        try:
            with JournalReader(path) as journal:
                here = journal.life.place == place_of(path)
                if journal.life.run == file.mesh.run and here and journal.records(1):
                    return True
        except JournalError:
            continue  # opening it says so
    return False


def _unknown(state: Path, run: str) -> UsageError:
    text = f"{state}: run {run} was begun in it, and {StateFolder(state).order} does not say in which order"
    return UsageError(
        f"{text} records were read: {_AGAIN}; the mesh needs a new run name "
        "(the new run counts what was spent)"
    )
