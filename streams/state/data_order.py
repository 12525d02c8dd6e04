"""Stores the choice and order of a run's records in its state folder, from the run's beginning.

A journal's position counts records in their order; in another order some would be learnt from twice. Only
settings and the sizes of files are stored, as a hash of records would reveal something of them without noise.
So a shorter file is detected, but the owner must ensure that the content stays the same.

The line with which each node began the run is stored too. Deleting a journal and its `.spends` therefore
gives no budget back: this line still shows that the run began, at which price and on which data.
"""

import json
import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from streams.mesh.errors import ABSENT, MeshFileError, UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.node import FrameSettings
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.state.folder import JournalError, StateFolder, place_of, write_private
from streams.state.journal_file import JournalReader

_FORMAT = "mirrormesh order 1"
_SETTINGS = ("kind", "name", "path", "rows", "split", "columns", "dialect", "shuffle", "take")
_AGAIN = "some records would be learnt from twice"


def check_order(state: Path, file: MeshFile, seed: int, *, learnt: bool) -> None:
    """Compare the choice and order of the records of the file's run with those stored when it began.

    `learnt`: whether the run has learnt from any record. Raises MeshFileError or UsageError if the run would
    continue with other records or in another order.
    """
    first_order = _kept(state).get(_key(file))
    if first_order is None and _has_journal(state, file):
        raise _unknown(state, file.mesh.run)
    if first_order is not None and learnt:
        _check(state, file, first_order, _now(file, seed))


def keep_order(state: Path, file: MeshFile, seed: int, begun: Mapping[str, str]) -> None:
    """Store the choice and order of the records of the file's run, and the lines with which its nodes begin.

    Raises UsageError if the stored file is damaged.
    """
    runs, now = _kept(state), _now(file, seed)
    kept_order = runs.get(_key(file), {"nodes": {}, "lines": {}})
    now["nodes"] = kept_order["nodes"] | now["nodes"]  # a node that is away now may be back later
    now["lines"] = {**begun, **kept_order["lines"]}
    if kept_order != now:
        content = json.dumps({"format": _FORMAT, "runs": runs | {_key(file): now}}, indent=1)
        write_private(StateFolder(state).order, lambda _: f"{content}\n")


def begun_lines(state: Path, node: str) -> tuple[str, ...]:
    """Return the lines with which a node's runs in the folder began. Raises JournalError."""
    try:
        runs = _kept(state)
    except UsageError as error:
        raise JournalError(str(error)) from error
    lines = (run["lines"].get(node) for run in runs.values())
    return tuple(line for line in lines if line is not None)


def begun_nodes(state: Path) -> set[str]:
    """Return the nodes with which runs in the folder began; none if the stored file is damaged."""
    try:
        return {name for run in _kept(state).values() for name in run["lines"]}
    except UsageError:
        return set()


def _key(file: MeshFile) -> str:
    return f"{file.mesh.name}/{file.mesh.run}"


def _now(file: MeshFile, seed: int) -> dict[str, Any]:
    now: dict[str, Any] = {"seed": seed, "nodes": {name: _chosen(file, name) for name in file.mesh.nodes}}
    if file.mesh.slots.by == "time":
        now["order"] = "time"
    return now


def _chosen(file: MeshFile, node: str) -> dict[str, Any]:
    """Return the settings that choose and order a node's records, by key, and its file's size in bytes."""
    source = file.own(node).source
    settings: dict[str, Any] = {} if source is None else source.model_dump(mode="json")
    chosen = {key: settings[key] for key in _SETTINGS if settings.get(key) is not None}
    if isinstance(file.mesh.slots, TimeSlotsSettings) and "record" in settings:
        chosen["schema.timestamp"] = settings["record"]["timestamp"]
    if isinstance(source, FrameSettings):
        return chosen | {"name": source.in_memory.name, "size": source.in_memory.rows}
    path = chosen.get("path")
    if path not in {None, "-"}:
        chosen["path"] = os.path.realpath(path)
        chosen["size"] = _size(chosen["path"])
    return chosen


def _size(path: str) -> int | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None  # opening the journal reports that
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _check(state: Path, file: MeshFile, began: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if began["seed"] != now["seed"]:
        raise UsageError(
            f"--seed is {now['seed']}: must be {began['seed']}, as when {state} was begun; in another order "
            f"of the data {_AGAIN}"
        )
    for node, before in began["nodes"].items():
        current = now["nodes"].get(node)
        if current is None:
            continue  # the file has other members, which the digest or the journals report
        for key in dict.fromkeys((*before, *current)):
            if key != "size" and before.get(key) != current.get(key):
                raise _refused(
                    file, node, key, f"was {_shown(before.get(key))}", state, current.get(key, ABSENT)
                )
        _check_size(state, file, node, before, current)


def _check_size(
    state: Path, file: MeshFile, node: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    before, after = was.get("size"), now.get("size")
    if before is None or after is None or after == before:
        return
    key, unit = ("path", "bytes") if "path" in now else ("name", "rows")
    if after < before:
        raise _refused(file, node, key, f"has {after:,} {unit}, and had {before:,}", state, now[key])
    if now.get("shuffle"):
        text = "has grown, and more lines have another order; it was shorter"
        raise _refused(file, node, key, text, state, now[key])


def _refused(file: MeshFile, node: str, key: str, was: str, state: Path, value: object) -> MeshFileError:
    text = f"{was} when {_again(file, state, 'must be that again, or ')}"
    return file.refuse(("nodes", node, "source", *key.split(".")), text, value)


def _again(file: MeshFile, state: Path, way: str = "") -> str:
    refusal = f"run {file.mesh.run} was begun in {state}: {_AGAIN}"
    return f"{refusal}; {way}the mesh needs a new run name (the new run counts what was spent)"


def _shown(value: object) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)


def _kept(state: Path) -> dict[str, Any]:
    """Return the stored entries of all runs in the folder. Raises UsageError for a damaged file."""
    path = StateFolder(state).order
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int, inode: int) -> dict[str, Any]:  # noqa: ARG001 # a key
    """Read the file. The result is cached, as each node of a run asks for its lines."""
    try:
        tree = json.loads(path.read_text())
    except ValueError:
        tree = None
    unknown = "in which order the records were read is not known"
    if isinstance(tree, dict) and tree.get("format") != _FORMAT:
        raise UsageError(f"{path}: its format is not {_FORMAT!r}, it is of another version: {unknown}")
    runs = tree.get("runs") if isinstance(tree, dict) else None
    valid = isinstance(runs, dict) and all(
        isinstance(run, dict)
        and isinstance(run.get("nodes"), dict)
        and isinstance(run.get("lines"), dict)
        and all(isinstance(line, str) for line in run["lines"].values())
        and "seed" in run
        for run in runs.values()
    )
    if not valid or not isinstance(runs, dict):
        raise UsageError(f"{path}: is broken: {unknown}")
    return dict(runs)


def _has_journal(state: Path, file: MeshFile) -> bool:
    """Return whether a journal of the file's run would continue.

    A copy begins anew, and its records count twice.
    """
    for path in (StateFolder(state).journal(name) for name in file.mesh.nodes):
        try:
            with JournalReader(path) as journal:
                same_place = journal.life.place == place_of(path)
                same_run = (journal.life.mesh, journal.life.run) == (file.mesh.name, file.mesh.run)
                if same_run and same_place and journal.records(1):
                    return True
        except JournalError:
            continue  # opening it reports that
    return False


def _unknown(state: Path, run: str) -> UsageError:
    text = f"{state}: run {run} was begun in it, and {StateFolder(state).order} does not say in which order"
    return UsageError(
        f"{text} records were read: {_AGAIN}; the mesh needs a new run name "
        "(the new run counts what was spent)"
    )
