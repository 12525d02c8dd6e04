"""Replays a mesh with slots by time: its slots begin when all runs, and the times of all records move along.

One party runs all. The difference is one whole number of seconds, from the mesh file's start and the clock,
never from a record. The state folder keeps the replay's mesh file, so that a replay goes on where it was.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streams.bus.logs import Logs
from streams.mesh.file import MeshFile, has_ended, load
from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.state.folder import StateFolder, write_private
from streams.terminal.text import listed
from streams.tools.up.programs import has_begun

LEAD, EACH = 10.0, 3.0
"""Seconds until slot 1 begins: at least, and for each process that starts, shared by the processors. A start
takes 2 s of one: with three nodes on two busy ones the last was ready after 16 s."""


def lead(file: MeshFile) -> float:
    """Return the seconds that this machine needs, at most, until scheduler, nodes and feeders run."""
    return LEAD + EACH * (1 + 2 * len(file.nodes)) / (os.cpu_count() or 1)


def check_replay(file: MeshFile) -> None:
    """Raise MeshFileError if the mesh cannot be replayed here. Call it before anything is started."""
    if not isinstance(file.mesh.slots, TimeSlotsSettings):
        raise file.refuse(("mesh", "slots", "by"), "--replay moves times: must be time", file.mesh.slots.by)
    missing = [name for name in file.mesh.nodes if name not in file.nodes]
    if missing:
        text = f"the own part of {listed(missing)} is missing: with --replay one party must run all nodes"
        raise file.refuse(("nodes",), text)


def fed_topics(file: MeshFile) -> list[str]:
    """Return the data topics of the mesh that hold records. Raises BusError."""
    topics = []
    for name in file.nodes:
        logs, topic = Logs(file.brokers(name).data), file.data_topics(name).records
        try:
            # what an open transaction holds counts: it may be committed yet, with the times of before
            topics += [topic] if logs.span(topic)[1] else []
        finally:
            logs.close()
    return topics


def replayed(
    file: MeshFile, state: Path, now: float, fed: Callable[[MeshFile], list[str]] = fed_topics
) -> MeshFile:
    """Write the replay's mesh file, which starts soon after `now`, into the folder `state`, and return it.

    A replay that is there goes on with its own start; one whose slots have ended before any was learnt from
    begins anew, unless its topics were `fed`. Raises MeshFileError if they were, or if another run was
    replayed there: its records, with its times, are still in the topics.
    """
    place, slots = StateFolder(state).replay, file.mesh.slots
    if not isinstance(slots, TimeSlotsSettings):
        raise TypeError("check_replay comes first")
    earlier = _earlier(file, state, now, fed)
    start = earlier.start if earlier else slots.start + math.ceil(now + lead(file) - slots.start)
    shift = round(start - slots.start)
    text = json.dumps(_moved(file, slots, shift), indent=2, ensure_ascii=False)  # JSON is YAML
    write_private(place, lambda _: f"# written by mirrormesh up --replay, from {file.path}\n{text}\n")
    return load(place, code=file.code.allowed)


def _earlier(
    file: MeshFile, state: Path, now: float, fed: Callable[[MeshFile], list[str]]
) -> TimeSlotsSettings | None:
    """Return the slots of the replay that is there and goes on. Raises MeshFileError."""
    place = StateFolder(state).replay
    earlier = load(place) if place.exists() else None
    if earlier is None or not isinstance(earlier.mesh.slots, TimeSlotsSettings):
        return None
    if earlier.mesh.run != file.mesh.run:
        if not any(any(StateFolder(state).journals(name)) for name in file.nodes):
            return None
        text = (
            f"{state} holds a replay of run {earlier.mesh.run}: must be that, or give another --state, "
            "in which what that run has spent may not count"
        )
        raise file.refuse(("mesh", "run"), text, file.mesh.run)
    if has_begun(earlier, state) or not has_ended(earlier, now):
        return earlier.mesh.slots
    if topics := fed(earlier):
        text = (
            f"the replay in {state} ended before its first step, and its times are in {listed(topics)}: "
            "delete what is there, or give another --state, if that has a broker of its own"
        )
        raise file.refuse(("mesh", "run"), text, file.mesh.run)
    return None


def _moved(file: MeshFile, slots: TimeSlotsSettings, shift: float) -> dict[str, Any]:
    """Return the content of the mesh file with start and records moved, and with paths from any folder."""
    folder, original = file.path.parent, read_yaml(file.path)
    tree: dict[str, Any] = dict(original)
    mesh = dict(tree["mesh"])
    mesh["slots"] = mesh["slots"] | {"start": slots.start + shift, "shift": slots.shift + shift}
    if file.mesh.algorithm.x_1 is not None:
        mesh["algorithm"] = mesh["algorithm"] | {"x_1": file.mesh.algorithm.x_1}  # from a file, perhaps
    if isinstance(mesh.get("features"), str):
        mesh["features"] = str(Path.cwd() / folder / mesh["features"])
    tree["mesh"] = mesh
    nodes: dict[str, Any] = {}
    for name, part in tree["nodes"].items():
        nodes[name] = part
        if isinstance(part, str):
            nodes[name] = str(Path.cwd() / folder / part)
        elif isinstance(part, Mapping) and isinstance(part.get("source"), Mapping):
            nodes[name] = {**part, "source": _source(part["source"], file.own(name).source, folder)}
    tree["nodes"] = nodes
    if "held_out" in tree:
        tree["held_out"] = _source(tree["held_out"], file.held_out, folder)
    return tree


def _source(written: Mapping[str, Any], settings: object, folder: Path) -> dict[str, Any]:
    source, path = dict(written), getattr(settings, "path", None)
    if path not in {None, "-"}:
        source["path"] = str(Path.cwd() / path)
    if isinstance(source.get("schema"), str):
        source["schema"] = str(Path.cwd() / folder / source["schema"])
    return source
