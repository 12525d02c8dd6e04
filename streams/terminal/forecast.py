"""Describes the run of a mesh file and its guarantees, without running it."""

from collections.abc import Iterator

from streams.mesh.ended_slots import ended_slots
from streams.mesh.file import MeshFile
from streams.mesh.lag import lag_limits, why_for_ever
from streams.mesh.mesh import Mesh, MeshNode
from streams.mesh.mixing import windows
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import CountSlots, PrivacySettings
from streams.terminal.bounds import bounds
from streams.terminal.edges import edges
from streams.terminal.motion import motion_facts
from streams.terminal.spending import spending
from streams.terminal.user_facts import user_facts
from streams.terminal.wording import counted, described, headline, listed, promises, shared

Fact = tuple[str, str]


def facts(file: MeshFile, rounds: int | None, now: float) -> Iterator[Fact]:
    """Yield (name, fact) in the order in which an operator asks; `rounds` replaces the file's.

    `now`: in seconds since 1970.
    """
    mesh = file.mesh
    rounds = rounds or mesh.rounds
    yield "mesh", headline(mesh)
    yield from motion_facts(mesh)
    yield from _members(file)
    schedule_windows = windows(file.resolved.schedule, rounds)
    yield from edges(file.resolved, schedule_windows)
    for names in _alike(mesh):
        yield from _privacy(file.resolved, names, rounds)
    yield from bounds(file, schedule_windows, rounds)
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
    absent = [name for name in mesh.nodes if name not in file.nodes]
    if absent:
        yield "elsewhere", f"the own part of {listed(absent)} is not here: its owner has it"


def _alike(mesh: MeshSettings) -> list[list[str]]:
    """Return the nodes in groups with equal privacy settings."""
    groups: dict[PrivacySettings, list[str]] = {}
    for name in mesh.nodes:
        groups.setdefault(mesh.privacy_of(name), []).append(name)
    return list(groups.values())


def _privacy(mesh: Mesh, names: list[str], rounds: int | None) -> Iterator[Fact]:
    node = mesh.node(names[0])
    subject = "every node" if len(names) == len(mesh.settings.nodes) else listed(names)
    yield "mechanism", f"{subject}: {described(node, rounds)}"
    if node.mechanism.epsilon is not None and node.privacy.on == "gradient":
        yield "noise", f"{subject}: {_against_the_signal(node, rounds)}"
    yield from ((key, f"{subject}: {fact}") for key, fact in spending(node, rounds))


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


_ONE_BROKER = (
    "without replicas its newest records can be lost at a power cut, and all with its disk; the mesh goes on "
    "from the journals, and those rounds are missing on the edges"
)


def _lag_limit(mesh: MeshSettings) -> str:
    limits = lag_limits(mesh)
    if limits is None:
        return f"none, as {why_for_ever(mesh)}: who falls {counted(mesh.horizon, 'round')} behind holds all"
    slow = "none" if mesh.lag_limit is None else f"{limits.slow:g} s, or 8 rounds,"
    return (
        f"{slow} for who holds all and steps; {limits.stuck:g} s for who does not step; then it is planned "
        "without on a broker"
    )


def _waiting(mesh: MeshSettings) -> Iterator[Fact]:
    lead = "plans lead by that many rounds at most, and a release that is later is lost"
    yield "horizon", f"{counted(mesh.horizon, 'round')}: {lead}"
    silent = "for ever" if mesh.round_timeout is None else f"{mesh.round_timeout:g} s"
    yield "waiting", f"{silent} for a silent neighbour on a broker, for ever in one process"
    yield "lag limit", _lag_limit(mesh)
    yield "one broker", _ONE_BROKER
    slots = mesh.slots
    if isinstance(slots, CountSlots):
        timeout = "for ever" if slots.timeout is None else f"{slots.timeout:g} s"
        yield "slots", f"{counted(slots.size, 'record')} a round; waits {timeout} for them on a broker"
    else:
        size = "record" if slots.size == 1 else counted(slots.size, "record")
        yield "slots", f"{slots.period:g} s each, the first {size} of it; closed {slots.grace:g} s late"
