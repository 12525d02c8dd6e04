"""Small mesh files for whole-mesh tests, and what leaves a mesh on the memory bus."""

import copy
from dataclasses import replace
from pathlib import Path

import yaml

from streams.codec import decode_release, encode_release
from streams.local.mesh import MemoryMesh, MeshParts
from streams.local.run import mesh_parts
from streams.mesh.file import load

REMOVED = object()
TRACKING = {
    "mesh": {
        "name": "tracking",
        "run": "run-1",
        "nodes": ["a", "b", "c", "d"],
        "dimension": 2,
        "algorithm": {
            "name": "dpdo-nc",
            "mirror_map": "euclidean",
            "constraint": {"l1-ball": 3},
            "step_size": {"rule": "inverse-sqrt", "a": 0.5},
        },
        "loss": "range",
        "slots": {"by": "count", "size": 1},
        "privacy": {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5, "noise": "simulated"},
        "topology": {"graph": "ring"},
        "horizon": 4,
        "rounds": 12,
    },
    "nodes": {name: {"source": {"kind": "localisation"}} for name in "abcd"},
}


def changed(**mesh):
    """The tracking mesh with other values in its shared part; nested mappings are merged."""
    tree = copy.deepcopy(TRACKING)
    for key, value in mesh.items():
        if isinstance(value, dict) and isinstance(tree["mesh"].get(key), dict):
            tree["mesh"][key] |= value
        else:
            tree["mesh"][key] = value
    return tree


def with_value(tree, path: str, value):
    """A copy of the tree with that value at a path of keys with dots, or without what is there (REMOVED)."""
    tree = copy.deepcopy(tree)
    *above, last = path.split(".")
    at = tree
    for key in above:
        at = at[key]
    if value is REMOVED:
        del at[last]
    else:
        at[last] = value
    return tree


def written(folder: Path, tree) -> Path:
    """The path of a mesh file that holds `tree`."""
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def code_in(tree) -> list[str]:
    """The names module:attribute of all losses and sources in `tree`."""
    if isinstance(tree, dict):
        names = [tree[key] for key in ("own", "name") if ":" in str(tree.get(key, ""))]
        return names + [name for held in tree.values() for name in code_in(held)]
    return [name for held in tree for name in code_in(held)] if isinstance(tree, list) else []


def loaded(folder: Path, tree):
    """The mesh file of `tree`, whose losses and sources may all run."""
    return load(written(folder, tree), {}, code=code_in(tree))


def counted_ids():
    """Ids that count up: the same in every run that asks in the same order."""
    numbers = iter(range(1, 1 << 30))
    return lambda: f"{next(numbers):032x}"


def ignore(node, report):
    """Take a report, and forget it."""


def lie(mesh: MemoryMesh, source: str, target: str):
    """Send a second value for the newest round on an edge; return the message with the first one."""
    edge = mesh.parts.topics.edge(source, target)
    first = decode_release(mesh.bus.read(edge, 0)[-1], mesh.parts.expected(source))
    second = first._replace(release=first.release + 0.125)
    mesh.bus.send(edge, encode_release(second, mesh.parts.digest))
    return first


def releases(mesh: MemoryMesh):
    """Every value on every edge: {(source, round): {release bytes}}, and {(source, target, round): count}."""
    values: dict[tuple[str, int], set[bytes]] = {}
    copies: dict[tuple[str, str, int], int] = {}
    for source in mesh.nodes:
        expected = mesh.parts.expected(source)
        for target in mesh.parts.scheduler.schedule.graph.neighbours(source)[1]:
            edge = mesh.parts.topics.edge(source, target)
            for value in mesh.bus.read(edge, mesh.bus.span(edge)[0]):
                message = decode_release(value, expected)
                values.setdefault((source, message.round), set()).add(message.release.tobytes())
                key = (source, target, message.round)
                copies[key] = copies.get(key, 0) + 1
    return values, copies


MOST = 300_000
"""Steps after which a mesh counts as one that never gets there; the longest tests take a tenth."""


def until(mesh, condition):
    """Advance the mesh until the condition holds; fail if it stands still, or never gets there."""
    for _ in range(MOST):
        if condition():
            return
        assert mesh.advance(), "the mesh stands still"
    raise AssertionError(f"{MOST} steps, and not there")


def planned_to_close(file, **options) -> MeshParts:
    """The parts of a mesh whose plans have closing rounds, as on a broker."""
    parts = mesh_parts(file, **options)
    return replace(parts, scheduler=replace(parts.scheduler, one_process=False))
