"""Describes the run of a mesh file and its guarantees, without running it."""

import math
from collections.abc import Iterator

from streams.mesh.ended_slots import ended_slots
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh, MeshNode
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import CountSlots, PrivacySettings
from streams.mesh.settings.topology import TopologySettings
from streams.terminal.spending import spending
from streams.terminal.user_facts import user_facts
from streams.terminal.wording import counted, described, headline, listed, promises, shared
from topology.connectivity import mixing_rate, window
from topology.schedules import CycleSchedule, Schedule, SwitchingSchedule

Fact = tuple[str, str]
_LOOKED_AT = 1_000  # rounds, of a run without end
_MOST = 5_000
_WIDEST = 100
_DRAWS = 4_000_000
_PRODUCTS = 200_000_000  # of numbers, in the products of windows
_NOTHING = 1e-12  # what rounding leaves of a rate of 0


def facts(file: MeshFile, rounds: int | None, now: float) -> Iterator[Fact]:
    """Yield (name, fact) in the order in which an operator asks; `rounds` replaces the file's.

    `now`: in seconds since 1970.
    """
    mesh = file.mesh
    rounds = rounds or mesh.rounds
    yield "mesh", headline(mesh)
    yield from _members(file)
    yield from _topology(file.resolved, rounds)
    for names in _alike(mesh):
        yield from _privacy(file.resolved, names, rounds)
    yield from _warnings(file)
    yield from user_facts(file)
    promised = promises({name: file.resolved.node(name).guarantee for name in mesh.nodes})
    yield from (("guarantee", sentence) for sentence in promised)
    yield from (("shared", sentence) for sentence in shared(file))
    yield from _waiting(mesh)
    ended = ended_slots(file, rounds, now) if file.names_brokers else None
    if ended is not None:
        yield "ended", ended


def _members(file: MeshFile) -> Iterator[Fact]:
    mesh = file.mesh
    least = len(mesh.nodes) if mesh.min_members is None else mesh.min_members
    yield "members", f"{listed(list(mesh.nodes))}; {counted(least, 'node')} must be there to begin"
    elsewhere = [name for name in mesh.nodes if name not in file.nodes]
    if elsewhere:
        yield "elsewhere", f"the own part of {listed(elsewhere)} is not here: its owner has it"


def _topology(mesh: Mesh, rounds: int | None) -> Iterator[Fact]:
    schedule = mesh.schedule
    pairs = mesh.graph.sources.size // 2
    yield (
        "edges",
        f"{_shape(mesh.settings.topology)}; {counted(pairs, 'pair')} of nodes, provisioned both ways",
    )
    starts, limit = _looked_at(schedule, rounds)
    found = window(schedule, limit, starts)
    where = f" (looked at: rounds 1 to {starts:,})" if isinstance(schedule, SwitchingSchedule) else ""
    if found is None:
        never = f"NOT IN {limit:,} ROUNDS" if isinstance(schedule, SwitchingSchedule) else "NEVER"
        yield "connected", f"{never}{where.upper()}"
        yield "", "nodes that are not connected never learn from each other"
        return
    width = counted(found, "round")
    yield "connected", f"{'in every round' if found == 1 else f'over any {width} in a row'}{where}"
    yield from _mixing(schedule, found, starts, rounds)


def _mixing(schedule: Schedule, width: int, starts: int, rounds: int | None) -> Iterator[Fact]:
    seen = min(starts, max(1, _PRODUCTS // len(schedule.graph.nodes) ** 3))
    rate = mixing_rate(schedule, width, seen)
    if rate is None:
        return
    window = f"any {counted(width, 'round')} in a row" if starts > 1 else counted(width, "round")
    left = f"at most {rate:.3g}" if rate > _NOTHING else "nothing"
    fact = f"after {window} {left} of the disagreement between nodes is left"
    drawn = isinstance(schedule, SwitchingSchedule)
    whole = seen >= (rounds or math.inf) if drawn else seen == starts
    yield "mixing", fact if whole else f"{fact}: an estimate, from those that begin in rounds 1 to {seen:,}"


def _looked_at(schedule: Schedule, rounds: int | None) -> tuple[int, int]:
    """Return the number of window starts to check, and the widest window."""
    if isinstance(schedule, SwitchingSchedule):
        affordable = max(1, _DRAWS // max(1, schedule.graph.sources.size) - _WIDEST)
        return min(rounds or _LOOKED_AT, _MOST, affordable), _WIDEST
    size = len(schedule.parts) if isinstance(schedule, CycleSchedule) else 1
    return size, size


def _shape(topology: TopologySettings) -> str:
    if topology.cycle is not None:
        return f"{len(topology.cycle)} graphs in turn ({', '.join(graph.name for graph in topology.cycle)})"
    name = "" if topology.graph is None else topology.graph.name
    if topology.switching is not None:
        return f"{name}, each pair on with probability {topology.switching:g}, round by round"
    return f"{name}, the same every round"


def _alike(mesh: MeshSettings) -> list[list[str]]:
    """Return the nodes in groups with equal privacy settings."""
    groups: dict[PrivacySettings, list[str]] = {}
    for name in mesh.nodes:
        groups.setdefault(mesh.privacy_of(name), []).append(name)
    return list(groups.values())


def _privacy(mesh: Mesh, names: list[str], rounds: int | None) -> Iterator[Fact]:
    node = mesh.node(names[0])
    whose = "every node" if len(names) == len(mesh.settings.nodes) else listed(names)
    yield "mechanism", f"{whose}: {described(node, rounds)}"
    if node.mechanism.epsilon is not None and node.privacy.on == "gradient":
        yield "noise", f"{whose}: {_against_the_signal(node, rounds)}"
    yield from ((key, f"{whose}: {fact}") for key, fact in spending(node, rounds))


def _against_the_signal(node: MeshNode, rounds: int | None) -> str:
    """Return the noise's length over the longest that a slot's mean gradient can be: that of the clip."""
    lengths = [node.noise_length(round) / node.privacy.gradient_bound for round in (1, rounds or 1)]
    first, last = (f"{length:.3g}" for length in lengths)
    ratio = first if first == last else f"{first} (in round {rounds:,} {last})"
    return (
        f"at least {ratio} times as long as a slot's signal, its mean gradient (as long as the clip allows)"
    )


def _warnings(file: MeshFile) -> Iterator[Fact]:
    privacy = file.mesh.privacy
    if privacy.noise == "simulated" and privacy.mechanism != "none":
        yield "WARNING", "THE NOISE IS SIMULATED: IT COMES FROM THE SEED, AND NOTHING IS PROTECTED"


def _waiting(mesh: MeshSettings) -> Iterator[Fact]:
    lead = "plans lead by that many rounds at most, and a release that is later is lost"
    yield "horizon", f"{counted(mesh.horizon, 'round')}: {lead}"
    silent = "for ever" if mesh.round_timeout is None else f"{mesh.round_timeout:g} s"
    yield "waiting", f"{silent} for a silent neighbour on a broker, for ever in one process"
    slots = mesh.slots
    if isinstance(slots, CountSlots):
        timeout = "for ever" if slots.timeout is None else f"{slots.timeout:g} s"
        yield "slots", f"{counted(slots.size, 'record')} a round; waits {timeout} for them on a broker"
    else:
        size = "record" if slots.size == 1 else counted(slots.size, "record")
        yield "slots", f"{slots.period:g} s each, the first {size} of it; closed {slots.grace:g} s late"
