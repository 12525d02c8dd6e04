"""Units of systemd for bare hosts: for each process its mesh file, its unit, and a drop-in."""

from streams.mesh.settings.collaboration import OwnerSettings
from streams.mesh.settings.node import LIVENESS, NodeSettings
from streams.mesh.settings.parties import Party
from streams.tools.export.parties import StarParty
from streams.tools.export.process_file import (
    learner_file,
    node_file,
    owner_file,
    scheduler_file,
    set_file,
)
from streams.tools.export.raw_mesh import RawCollaboration, RawMesh
from streams.tools.export.unit_files import HERE, SET, SETS, Service, dropin, user, written

NODE = "mirrormesh-node@.service"
SCHEDULER = "mirrormesh-scheduler.service"
OWNER = "mirrormesh-owner@.service"
LEARNER = "mirrormesh-learner@.service"
FIRST_PORT = 9100
"""The scheduler's, or the learner's; nodes and owners have two each from the next one on: the shared one, and
their owner's."""
CREDENTIALS = "${CREDENTIALS_DIRECTORY}"


def party(raw: RawMesh, whose: Party) -> dict[str, str]:
    """Return the files of a party: for each of its nodes those of one service."""
    services = [_node(raw, node, FIRST_PORT + 2 * k + 1) for k, node in enumerate(whose.nodes)]
    return written(f"party {whose.name} of mesh {raw.file.mesh.name}", services)


def operator(raw: RawMesh) -> dict[str, str]:
    """Return the files of the mesh's operator."""
    file = scheduler_file(raw, CREDENTIALS)
    lines = dropin("scheduler", file, FIRST_PORT, [])
    service = Service("scheduler", SCHEDULER, "mirrormesh-scheduler", file, lines)
    return written(f"the operator of mesh {raw.file.mesh.name}", [service])


def star(raw: RawCollaboration, whose: StarParty) -> dict[str, str]:
    """Return the files of a party of a collaboration: those of one service."""
    service = _owner(raw, whose.name) if whose.owner else _learner(raw, whose.name)
    return written(f"{whose.kind} {whose.name} of collaboration {raw.file.mesh.name}", [service])


def _node(raw: RawMesh, node: str, port: int) -> Service:
    node_settings = raw.file.own(node)
    file = node_file(raw, node, CREDENTIALS, _private(node_settings, port))
    lines = dropin(node, file, port, _own_lines(node, node_settings), raw.file.code_of(node))
    return Service(node, NODE, f"mirrormesh-node@{node}", file, lines)


def _owner(raw: RawCollaboration, owner: str) -> Service:
    owner_settings, port, records = raw.file.own(owner), FIRST_PORT + 1, set_file(raw, owner)
    file = owner_file(raw, owner, CREDENTIALS, _private(owner_settings, port), SET)
    more = [] if records is None else [f"BindReadOnlyPaths={SETS}/{owner}:{SET}"]
    lines = dropin(owner, file, port, [*_own_lines(owner, owner_settings), *more])
    return Service(owner, OWNER, f"mirrormesh-owner@{owner}", file, lines, records)


def _learner(raw: RawCollaboration, name: str) -> Service:
    file = learner_file(raw, CREDENTIALS)
    lines = dropin(name, file, FIRST_PORT, [f"User={user(name)}"])
    return Service(name, LEARNER, f"mirrormesh-learner@{name}", file, lines)


def _private(own: NodeSettings | OwnerSettings, port: int) -> str:
    return "{}:{}".format(*own.private_endpoint or (HERE, port + 1))


def _own_lines(name: str, own: NodeSettings | OwnerSettings) -> list[str]:
    watched = [] if own.liveness == LIVENESS else [f"WatchdogSec={own.liveness:g}s"]
    return [f"User={user(name)}", *watched]
