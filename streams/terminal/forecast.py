"""What a run of a mesh file would be, and what is promised: said before anything is run."""

from collections.abc import Iterator
from fractions import Fraction

from nodes.decimals import as_text
from nodes.ledger import Ledger
from streams.mesh_file import build
from streams.mesh_file.file import MeshFile
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.privacy import CountSlots, PrivacySettings
from streams.mesh_file.settings.topology import TopologySettings
from streams.terminal.wording import counted, headline, listed, promises
from topology.connectivity import mixing_rate, window
from topology.schedules import CycleSchedule, Schedule, SwitchingSchedule

Fact = tuple[str, str]
_LOOKED_AT = 1_000
_WIDEST = 100
_DRAWS = 4_000_000
_NOTHING = 1e-12  # what rounding leaves of a rate of 0


def facts(file: MeshFile, rounds: int | None) -> Iterator[Fact]:
    """Yield (name, fact) in the order in which an operator asks; `rounds` stands in for the file's."""
    mesh = file.mesh
    rounds = rounds or mesh.rounds
    yield "mesh", headline(mesh)
    yield from _members(file)
    yield from _topology(mesh, rounds)
    for names in _alike(mesh):
        yield from _privacy(mesh, names, rounds)
    yield from _warnings(file)
    trusting = {name for name in file.nodes if file.trusts_broker(name)}
    made = {name: build.guarantee(mesh, name, trusted_broker=name in trusting) for name in mesh.nodes}
    yield from (("guarantee", sentence) for sentence in promises(made))
    yield from _waiting(mesh)


def _members(file: MeshFile) -> Iterator[Fact]:
    mesh = file.mesh
    least = len(mesh.nodes) if mesh.min_members is None else mesh.min_members
    yield "members", f"{listed(list(mesh.nodes))}; {counted(least, 'node')} must be there to begin"
    elsewhere = [name for name in mesh.nodes if name not in file.nodes]
    if elsewhere:
        yield "elsewhere", f"the own part of {listed(elsewhere)} is not here: its owner has it"


def _topology(mesh: MeshSettings, rounds: int | None) -> Iterator[Fact]:
    schedule = build.schedule(mesh, mesh.seed)
    pairs = schedule.graph.sources.size // 2
    yield "edges", f"{_shape(mesh.topology)}; {counted(pairs, 'pair')} of nodes, provisioned both ways"
    starts, limit = _looked_at(schedule, rounds)
    found = window(schedule, limit, starts)
    where = f" (looked at: rounds 1 to {starts:,})" if isinstance(schedule, SwitchingSchedule) else ""
    if found is None:
        yield "connected", f"NOT IN {limit:,} ROUNDS{where}".upper()
        yield "", "nodes that are not connected never learn from each other"
        return
    width = counted(found, "round")
    yield "connected", f"{'in every round' if found == 1 else f'over any {width} in a row'}{where}"
    rate = mixing_rate(schedule, found)
    if rate is not None:
        left = f"at most {rate:.3g}" if rate > _NOTHING else "nothing"
        yield "mixing", f"after {width} {left} of the disagreement between nodes is left"


def _looked_at(schedule: Schedule, rounds: int | None) -> tuple[int, int]:
    """Return how many starts of windows are looked at, and the widest window that is."""
    if isinstance(schedule, SwitchingSchedule):
        affordable = max(1, _DRAWS // max(1, schedule.graph.sources.size) - _WIDEST)
        return min(rounds or _LOOKED_AT, _LOOKED_AT, affordable), _WIDEST
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
    """Return the nodes in groups that do the same for privacy."""
    groups: dict[PrivacySettings, list[str]] = {}
    for name in mesh.nodes:
        groups.setdefault(mesh.privacy_of(name), []).append(name)
    return list(groups.values())


def _privacy(mesh: MeshSettings, names: list[str], rounds: int | None) -> Iterator[Fact]:
    privacy = mesh.privacy_of(names[0])
    whose = "every node" if len(names) == len(mesh.nodes) else listed(names)
    yield "mechanism", f"{whose}: {_mechanism(mesh, names[0], rounds)}"
    ledger = build.ledger(mesh, names[0])
    if ledger.epsilon is None:
        return
    yield "epsilon", f"{whose}: {_epsilon(ledger, ledger.epsilon, rounds)}"
    yield "learning", f"{whose}: {_learning(ledger, privacy, rounds)}"


def _mechanism(mesh: MeshSettings, name: str, rounds: int | None) -> str:
    privacy = mesh.privacy_of(name)
    made = build.mechanism(mesh, name, build.sampler(mesh, name, mesh.seed))
    clip = f"each record's gradient is clipped to {privacy.gradient_bound:g} in {privacy.norm}"
    if made.epsilon is None:
        return f"{made.name}; {clip}; no noise"
    first, last = made.noise_scale(1), made.noise_scale(rounds or 1)
    scale = f"{first:.4g}" if first == last else f"{first:.4g} in round 1, {last:.4g} in round {rounds:,}"
    what = "the round's mean gradient" if privacy.on == "gradient" else "the parameters"
    kind = "simulated" if made.simulated else "exact"
    noise = f"{kind} noise of scale {scale} on each coordinate of {what}"
    return f"{privacy.mechanism} on the {privacy.on}; {clip}; {noise}"


def _epsilon(ledger: Ledger, epsilon: Fraction, rounds: int | None) -> str:
    one = f"{as_text(epsilon)} of one record, however long the run (event level)"
    if rounds is None:
        return f"{one}; the whole stream of a node costs {ledger.spent(1):,.6g} a round (stream level)"
    charged = min(rounds, ledger.last_learning_round or rounds)
    total = f"{ledger.spent(charged):,.6g} of a node's whole stream after {counted(rounds, 'round')}"
    return f"{one}; {total} (stream level, sum)"


def _learning(ledger: Ledger, privacy: PrivacySettings, rounds: int | None) -> str:
    last = ledger.last_learning_round
    if last is None or privacy.budget is None:
        return "in every round: there is no budget"
    if rounds is not None and rounds <= last:
        return f"in every round: the budget of {float(privacy.budget):g} pays for {counted(last, 'round')}"
    then = {
        "relay": "it relays: it averages and passes on, and learns from no record any more",
        "leave": "it leaves the mesh",
    }[privacy.after_budget]
    return f"up to round {last:,}, when the budget of {float(privacy.budget):g} is spent; then {then}"


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
        size = counted(slots.size, "record")
        yield "slots", f"{slots.period:g} s each, the first {size} of it; closed {slots.grace:g} s late"
