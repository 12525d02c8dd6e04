"""Replays a mesh with slots by time: its slots begin now, and the times of all records move along.

One party runs all. The difference is one whole number of seconds, from the mesh file's start and the clock,
never from a record. The state folder keeps the replay's mesh file, so that a replay goes on where it was.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from streams.mesh.ended_slots import has_ended
from streams.mesh.file import MeshFile, load
from streams.mesh.settings.privacy import TimeSlots
from streams.mesh.settings.yaml_file import read_yaml
from streams.state.folder import StateFolder, write_private
from streams.terminal.wording import listed
from streams.tools.up.folders import has_begun


def check_replay(file: MeshFile) -> None:
    """Raise MeshFileError if the mesh cannot be replayed here. Call it before anything is started."""
    if not isinstance(file.mesh.slots, TimeSlots):
        raise file.refuse(("mesh", "slots", "by"), "--replay moves times: must be time", file.mesh.slots.by)
    missing = [name for name in file.mesh.nodes if name not in file.nodes]
    if missing:
        text = f"the own part of {listed(missing)} is missing: with --replay one party must run all nodes"
        raise file.refuse(("nodes",), text)


def replayed(file: MeshFile, state: Path, now: float) -> MeshFile:
    """Write the replay's mesh file, which starts at `now`, into the folder `state`, and return it.

    A replay that is there goes on with its own start. Raises MeshFileError if another run was replayed there:
    its records, with its times, are still in the topics.
    """
    place, slots = StateFolder(state).replay, file.mesh.slots
    if not isinstance(slots, TimeSlots):
        raise TypeError("check_replay comes first")
    shift = math.ceil(now - slots.start)
    if place.exists():
        earlier = load(place)
        if earlier.mesh.run != file.mesh.run and any(any(StateFolder(state).journals(n)) for n in file.nodes):
            text = (
                f"{state} holds a replay of run {earlier.mesh.run}: must be that, or give another --state, "
                "in which what that run has spent may not count"
            )
            raise file.refuse(("mesh", "run"), text, file.mesh.run)
        goes_on = has_begun(earlier, state) or not has_ended(earlier, now)
        if earlier.mesh.run == file.mesh.run and isinstance(earlier.mesh.slots, TimeSlots) and goes_on:
            shift = round(earlier.mesh.slots.start - slots.start)
    text = json.dumps(_moved(file, slots.start + shift), indent=2, ensure_ascii=False)  # JSON is YAML
    write_private(place, lambda _: f"# written by mirrormesh up --replay, from {file.path}\n{text}\n")
    return replace(load(place), shift=float(shift))


def _moved(file: MeshFile, start: float) -> dict[str, Any]:
    """Return the content of the mesh file with another start, and with paths that hold from any folder."""
    folder, found = file.path.parent, read_yaml(file.path)
    tree: dict[str, Any] = dict(found)
    mesh = dict(tree["mesh"])
    mesh["slots"] = mesh["slots"] | {"start": start}
    if file.mesh.algorithm.x_1 is not None:
        mesh["algorithm"] = mesh["algorithm"] | {"x_1": file.mesh.algorithm.x_1}  # from a file, perhaps
    tree["mesh"] = mesh
    nodes: dict[str, Any] = {}
    for name, own in tree["nodes"].items():
        nodes[name] = own
        if isinstance(own, str):
            nodes[name] = str(Path.cwd() / folder / own)
        elif isinstance(own, Mapping) and isinstance(own.get("source"), Mapping):
            nodes[name] = {**own, "source": _source(own["source"], file.own(name).source, folder)}
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
