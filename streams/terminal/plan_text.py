"""Describes the run of a mesh file and its guarantees, without running it."""

import math
from collections.abc import Iterator

from nodes.bounds import convex, curvature
from streams.bus.topic_specs import mesh_specs, release_topics
from streams.ledger import promises_of
from streams.mesh.algorithm import dynamics
from streams.mesh.file import MeshFile, ended_slots
from streams.mesh.mesh import Mesh, MeshNode, lag_limits, why_for_ever
from streams.mesh.settings.base import Settings
from streams.mesh.settings.files import as_flow
from streams.mesh.settings.mesh import MeshSettings, TopologySettings
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.privacy import CountSlotsSettings, PrivacySettings
from streams.mesh.settings.rule import resolved
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.mesh.theory import Mixes, NoBound, Theory, Windows, least, windows
from streams.terminal.text import counted, described, geometry, headline, listed, promises, spending, withheld
from topology.schedules import closing_rounds

Fact = tuple[str, str]


def facts(file: MeshFile, rounds: int | None, now: float) -> Iterator[Fact]:
    """Yield (name, fact) about a run, in the order in which an operator asks.

    `rounds` replaces the file's. `now` is in seconds since 1970.
    """
    mesh = file.mesh
    rounds = rounds or mesh.rounds
    yield "mesh", headline(mesh)
    yield from rule_facts(mesh)
    yield from motion_facts(mesh)
    weakest = geometry(file.resolved)
    if weakest is not None:
        yield "geometry", weakest
    yield from _members(file)
    schedule_windows = windows(file.resolved.schedule, rounds)
    yield from edges(file.resolved, schedule_windows)
    yield "closing", _closing(file.resolved, rounds)
    for names in _alike(file.resolved):
        yield from _privacy(file.resolved, names, rounds)
    yield from bounds(file, schedule_windows, rounds)
    yield from _warnings(file)
    yield from user_facts(file)
    yield from (("guarantee", sentence) for sentence in promises(promises_of(file)))
    yield from _waiting(mesh)
    yield from _labels(file)
    yield from (("kept back", line) for line in withheld(file))
    yield from _durability(file)
    ended = ended_slots(file, rounds, now) if file.names_brokers else None
    if ended is not None:
        yield "ended", ended


def rule_facts(mesh: MeshSettings) -> Iterator[Fact]:
    """Yield what the mesh's rule has chosen and why, and where the file's own value stands in its place."""
    if mesh.rule is None:
        return
    yield "rule", f"version {mesh.rule.version}, for {mesh.rule.in_words}; all nodes choose alike"
    for key, choice, value in resolved(mesh):
        if value == choice.value:
            yield "", f"{key}: {_as_written(value)}: {choice.why}"
        else:
            yield (
                "",
                f"{key}: {_as_written(value)}: given; by the rule it would be {_as_written(choice.value)}",
            )


def _as_written(value: object) -> str:
    """Return a setting's value as on one line of a mesh file."""
    return "none" if value is None else as_flow(value)


def _closing(mesh: Mesh, rounds: int | None) -> str:
    last = mesh.last_round(rounds)
    count = closing_rounds(mesh.schedule, last)
    after = "the end" if last is None else f"round {last:,}"
    reason = " (the run is short for its graph)" if count > 1 else ""
    mixing = "nodes mix what was learnt last, and learn and charge nothing"
    return f"{counted(count, 'round')}{reason} after {after}: {mixing}"


def _members(file: MeshFile) -> Iterator[Fact]:
    mesh = file.mesh
    least = len(mesh.nodes) if mesh.min_members is None else mesh.min_members
    yield "members", f"{listed(list(mesh.nodes))}; {counted(least, 'node')} must be there to begin"
    absent = [name for name in mesh.nodes if name not in file.nodes]
    if absent:
        yield "elsewhere", f"the own part of {listed(absent)} is not here: its owner has it"


def _alike(mesh: Mesh) -> list[list[str]]:
    """Return groups of nodes with equal privacy settings."""
    groups: dict[PrivacySettings, list[str]] = {}
    for name in mesh.settings.nodes:
        groups.setdefault(mesh.node(name).privacy, []).append(name)
    return list(groups.values())


def _privacy(mesh: Mesh, names: list[str], rounds: int | None) -> Iterator[Fact]:
    node = mesh.node(names[0])
    subject = "every node" if len(names) == len(mesh.settings.nodes) else listed(names)
    yield "mechanism", f"{subject}: {described(node, rounds)}"
    if node.clip_share < 1:
        less = (
            f"{node.clip_share:.3g} of the mesh's, so that the noise is no longer than by the mesh's privacy"
        )
        yield "clip", f"{subject}: {less}: the records count less (gradient_bound of the node changes it)"
    on_gradients = node.privacy.on == "gradient" and mesh.settings.algorithm.steps
    if node.mechanism.epsilon is not None and on_gradients:
        yield "noise", f"{subject}: {_against_the_signal(node, rounds)}"
    yield from ((key, f"{subject}: {fact}") for key, fact in spending(node, rounds))


def _against_the_signal(node: MeshNode, rounds: int | None) -> str:
    """Return the ratio of the noise's length to the longest mean gradient of a slot that the clip allows."""
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
    "without replicas its newest records can be lost at a power cut, and all with its disk; the mesh "
    "continues from the journals, and those rounds are missing on the edges"
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
    if isinstance(slots, CountSlotsSettings):
        timeout = "for ever" if slots.timeout is None else f"{slots.timeout:g} s"
        yield "slots", f"{counted(slots.size, 'record')} a round; waits {timeout} for them on a broker"
    else:
        size = "record" if slots.size == 1 else counted(slots.size, "record")
        yield "slots", f"{slots.period:g} s each, the first {size} of it; closed {slots.grace:g} s late"


def _labels(file: MeshFile) -> Iterator[Fact]:
    for name in file.nodes:
        labels, wait = file.later_labels(name), file.resolved.waits.get(name)
        if labels is not None and labels.path is not None and wait is not None:
            until = f"up to {wait.words} after a record" if labels.came else "whenever they came"
            yield "labels", f"{name}: in {labels.origin}, by {labels.join}, {until}"
            if labels.came is None:
                yield (
                    "",
                    "without times of labels this is no replay of a live run, which has but those by then",
                )
        elif labels is not None and wait is not None:
            yield (
                "labels",
                f"{name}: from {labels.origin}, by {labels.join}, up to {wait.words} after a record",
            )
            yield "", f"the first slot is a wait of {wait.words}, and so is all that is learnt"


def _durability(file: MeshFile) -> Iterator[Fact]:
    names = [name for name, settings in file.nodes.items() if settings.durability == "process"]
    if names:
        slots = f"{counted(file.mesh.horizon, 'slot')} of {counted(file.mesh.slots.size, 'record')}"
        cost = f"a power cut costs a node up to {slots}, also of records to come, and their charges"
        yield "durability", f"{listed(names)}: the disk is not synced each round; {cost}"


# Describes which nodes read which, how soon a change has reached all nodes, and how fast they agree.

REPLICAS = 3
"""The number of replicas of a topic in a usual cluster."""
_NOTHING = 1e-12  # a rate below this is 0 up to rounding


def edges(mesh: Mesh, seen: Windows) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about the edges and their schedule."""
    pairs = mesh.graph.sources.size // 2
    yield (
        "edges",
        f"{_shape(mesh.settings.topology)}; {counted(pairs, 'pair')} of nodes, provisioned both ways",
    )
    yield from _layout(mesh)
    looked_at = f" (looked at: rounds 1 to {seen.starts:,})" if seen.drawn else ""
    if seen.width is None:
        never = f"NOT IN {seen.limit:,} ROUNDS" if seen.drawn else "NEVER"
        yield "connected", f"{never}{looked_at.upper()}"
        yield "", "nodes that are not connected never learn from each other"
        return
    window = f"any {counted(seen.width, 'round')} in a row"
    yield "connected", f"{'in every round' if seen.width == 1 else f'over {window}'}{looked_at}"
    if seen.rate is not None:
        share = f"at most {seen.rate:.3g}" if seen.rate > _NOTHING else "nothing"
        after = window if seen.starts > 1 else counted(seen.width, "round")
        fact = f"after {after} {share} of the disagreement between nodes is left"
        guess = f": an estimate, from those that begin in rounds 1 to {seen.measured:,}"
        yield "mixing", fact if seen.whole else fact + guess


def _layout(mesh: Mesh) -> Iterator[tuple[str, str]]:
    """Yield the facts about outboxes. Yields nothing if each edge has a topic of its own."""
    if mesh.settings.layout == "edges":
        return
    boxes, edges = len(release_topics(mesh)), mesh.graph.sources.size
    topics = len(mesh_specs(mesh))
    by_edge = topics - boxes + edges
    topics_text = f"outbox: {counted(topics, 'topic')} on the mesh broker"
    yield "layout", f"{topics_text}, {topics * REPLICAS:,} replicas at {REPLICAS} each"
    yield "", f"with a topic an edge it would be {by_edge:,} topics, {by_edge * REPLICAS:,} replicas"
    yield (
        "",
        "rights are by node, not by edge: a neighbour reads all releases of a node, whichever edges are on",
    )
    yield "", "the guarantee is the same: it holds against everyone who reads the mesh broker"


def _shape(topology: TopologySettings) -> str:
    if topology.cycle is not None:
        return f"{len(topology.cycle)} graphs in turn ({', '.join(graph.name for graph in topology.cycle)})"
    name = "" if topology.graph is None else topology.graph.name
    if topology.switching is not None:
        part = "directed cycle" if name == "directed-edges" else "pair"
        return f"{name}, each {part} on with probability {topology.switching:g}, round by round"
    return f"{name}, the same every round"


# Describes a motion model in words.

NO_BOUND = (
    "none is claimed with a motion model: theorems on moving targets (Hall, Willett 2013; Shahrampour, "
    "Jadbabaie 2018) need one that is non-expansive, and constant velocity or acceleration is so in no norm; "
    "those on fixed ones have none"
)


def motion_facts(mesh: MeshSettings) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of the mesh's motion model; nothing if it has none."""
    settings, observed = mesh.algorithm.dynamics, mesh.algorithm.seen
    model = dynamics(mesh)
    if settings is None or observed is None or model is None:
        return
    if settings.model is None:
        description = f"a matrix of {mesh.dimension} rows, spectral radius {model.spectral_radius():.6g}"
    else:
        description = f"{settings.model} in {settings.dimensions}, period {settings.period:g}"
    yield "motion", f"{description}; public, and the same at every node"
    if mesh.public_places:
        yield from _followed(mesh)
        return
    part, size = ", ".join(map(str, observed)), len(observed)
    yield (
        "",
        f"the loss sees coordinates {part} of {mesh.dimension}: gradients, clip and noise have {size}",
    )


def _followed(mesh: MeshSettings) -> Iterator[tuple[str, str]]:
    settings = mesh.algorithm
    yield (
        "curvature",
        f"public: jerk {settings.jerk:g}, error {settings.error:g}, presence {settings.presence or 1.0:g}",
    )
    yield "", "directions and lengths of steps are public, and a record gives one sign"
    yield "", "an empty slot tosses a coin like any other, so records that are missing cost accuracy"


# Describes which parties could forge which messages on the mesh broker, as far as a mesh file shows it.


def user_facts(file: MeshFile) -> Iterator[tuple[str, str]]:
    """Yield a warning if the broker has no users, and the groups of nodes that share a user."""
    if file.names_brokers:
        broker = file.mesh_broker
        if not broker.users and broker.certificate is None:
            forged = "can forge heartbeats, plans and releases"
            if file.mesh.signatures == "required":
                forged = "can replay heartbeats, plans and releases, and flood its topics"
            yield "warning", f"the file names no users: anyone who reaches {broker.servers} {forged}"
    for party in file.mesh.all_parties:
        if len(party.nodes) > len(set(party.users.values())):
            names, user = listed(party.nodes), next(iter(party.users.values()))
            yield (
                "users",
                f"{names} of {party.name} share the user {user}: each can forge what the others send",
            )


# Describes what theorems promise of a mesh's regret, and which of their assumptions the mesh does not meet.

ROUNDS = 1_000
"""The number of rounds for which bounds are given, for a mesh without a last round."""

_PRINTED = {
    "dpdo-nc": "Zhou, Li 2025, Theorem 2",
    "dola": "Li et al. 2018, Theorem 5",
    "gaussian": "Li et al. 2018, Theorem 7: no value: it gives its noise up to a constant alone",
    "sparse-dola": "Li et al. 2018, Theorem 8: no value: its noise term is not legible beyond doubt",
}


def bounds(file: MeshFile, seen: Windows, rounds: int | None) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) about the regret after the rounds in which the mesh learns."""
    if file.mesh.algorithm.dynamics is not None:
        yield "bound", NO_BOUND
        return
    if file.mesh.unit is not None:
        yield "bound", "none: bounds are for rounds that learn from all records of their slots"
        return
    if file.mesh.algorithm.alone:
        yield "bound", f"none: {file.mesh.algorithm.name} minimises no loss, so there is no regret"
        return
    if seen.width is None:
        yield "bound", "none: nodes that are not connected never agree"
        return
    if seen.rate is None:
        yield "bound", f"none: the mixing of {counted(len(file.mesh.nodes), 'node')} is not measured"
        return
    theory = theory_of(file, seen, rounds)
    try:
        yield from _bound(theory, whole=seen.whole)
    except NoBound as reason:
        yield "bound", f"none: {reason}"
    yield "printed", _printed(theory)
    yield "not met", "; ".join(unmet_assumptions(theory)) or "nothing: the mesh is the theorem's"


def theory_of(file: MeshFile, seen: Windows, rounds: int | None) -> Theory:
    """Return the theory of a mesh whose nodes are connected, after the rounds in which all nodes learn."""
    mesh = file.resolved
    ends = {mesh.node(name).ledger.last_learning_round for name in file.mesh.nodes}
    last = min(rounds or ROUNDS, *(end for end in ends if end is not None), math.inf)
    mixes = Mixes(seen.width or 1, 1.0 if seen.rate is None else seen.rate, *least(mesh.schedule, seen))
    return Theory(mesh, int(last), mixes, _longest(file))


def _bound(theory: Theory, *, whole: bool) -> Iterator[tuple[str, str]]:
    bound, of_any = theory.bound(), theory.of_any()
    share = bound / (theory.rounds * theory.network.nodes)
    size = f"at most {bound:.3g}, {share:.3g} a round and node"
    quantity = "regret" if theory.convex else "first-order regret"
    value = f"{quantity} of the network after {counted(theory.rounds, 'round')} {size}"
    if bound >= of_any:
        yield "bound", f"{value}; that says nothing, as no decisions have more than {of_any:.3g}"
    else:
        yield "bound", f"{value} (no decisions have more than {of_any:.3g})"
    yield "", "an expectation over noise; if no gradient is longer than the clip, and no node late or away"
    if not theory.convex:
        close = "nearer to a sensor than half of the distance measured"
        yield "", f"no promise: the range loss has no beta {close}, and this takes the 1 of elsewhere"
    else:
        draws = "if records are independent draws (Li et al. 2018, Theorem 10)"
        yield "", f"a node's average decision: expected loss at most {share:.3g} above the least, {draws}"
    if not whole:
        yield "", "an estimate, as the mixing is one"


def _printed(theory: Theory) -> str:
    algorithm, privacy = theory.mesh.settings.algorithm.name, theory.mesh.settings.privacy
    gaussian = algorithm == "dola" and privacy.mechanism == "gaussian"
    name = _PRINTED["gaussian" if gaussian else algorithm]
    if gaussian or algorithm == "sparse-dola":
        return name
    try:
        value = theory.zhou_li() if algorithm == "dpdo-nc" else theory.li()
    except NoBound as reason:
        return f"{name}: no value: {reason}"
    if algorithm == "dola":
        return f"{name}: {value:.3g}, which is no bound: runs on large constraints exceed it"
    return f"{name}: {value:.3g}"


def _longest(file: MeshFile) -> float | None:
    """Return the largest L2 norm of a record's features that the sources' settings allow; None: unknown."""
    longest = [_of_source(node.source) for node in file.nodes.values()]
    if len(longest) < len(file.mesh.nodes) or not longest:
        return None
    return None if None in longest else max(count for count in longest if count is not None)


def _of_source(source: Settings | None) -> float | None:
    if isinstance(source, LibsvmSettings | CsrSettings):
        return source.norm
    if not isinstance(source, FileSettings):
        return None
    schema = source.record
    if schema.longest is not None:
        return schema.longest
    if any(column.number for column in schema.features.values()):
        return None
    # a column's feature is in [0, 1], or one of its features is 1
    return math.sqrt(len(schema.features) + schema.height**2)


# Names the assumptions of a paper's theorem that a mesh does not meet.


def unmet_assumptions(theory: Theory) -> Iterator[str]:
    """Yield each assumption, of the theorem for the mesh's algorithm, that the mesh does not meet."""
    dpdo = theory.mesh.settings.algorithm.name == "dpdo-nc"
    yield from _of_the_loss(theory, dpdo=dpdo)
    yield from _of_the_map(theory, dpdo=dpdo)
    yield from _of_the_steps(theory, dpdo=dpdo)
    yield from _of_the_noise(theory, dpdo=dpdo)
    if not theory.mixes.lazy:
        yield "the lemma on mixing needs a weight of every node on itself"


def _of_the_loss(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    losses = theory.losses
    if theory.convex is None:
        yield "nothing is known of your own loss"
    elif dpdo and losses.curvature is None:
        name = losses.first(lambda loss: curvature(loss) is None)
        yield f"the {name} loss is not smooth {'at its kink' if theory.convex else 'at a sensor'}"
    elif not dpdo and not theory.convex:
        yield f"the {losses.first(lambda loss: not convex(loss))} loss is not convex"


def _of_the_map(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    mirror_map = theory.mesh.settings.algorithm.mirror_map
    if dpdo and not math.isfinite(theory.geometry.smoothness):
        yield "the entropy is not smooth on the simplex's edge"
    if not dpdo and not mirror_map.euclidean:
        yield f"the mirror map is {mirror_map.name}, not euclidean"


def _of_the_steps(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    settings = theory.mesh.settings
    strong, name = settings.algorithm.regulariser, settings.algorithm.name
    if name == "sparse-dola":
        return
    size = len(settings.nodes)
    if dpdo:
        rule, scale, expected = "inverse-sqrt", 1 / size, f"1/({size} sqrt(t))"
    elif strong:
        rule, scale, expected = "inverse", 1 / strong, f"{1 / strong:.3g}/t"
    else:
        rule, scale, expected = "inverse-sqrt", 0.5, "1/(2 sqrt(t))"
    steps = settings.algorithm.step_size
    if steps.rule != rule or not math.isclose(steps.a, scale, rel_tol=1e-9):
        yield f"steps are not {expected}"
    if dpdo and strong:
        yield "there is a regulariser"


def _of_the_noise(theory: Theory, *, dpdo: bool) -> Iterator[str]:
    settings = theory.mesh.settings
    privacy, name = settings.privacy, settings.algorithm.name
    if privacy.mechanism == "none":
        return
    usual = "gaussian" if name == "dola" and privacy.mechanism == "gaussian" else "laplace"
    if privacy.mechanism != usual:
        yield f"the noise is not Laplace's but that of {privacy.mechanism}"
    if usual == "gaussian":
        yield "the noise is calibrated to the gradient, not to alpha_t times it"
    elif privacy.on == "gradient":
        yield "the noise is on the gradient, not on the parameters"
    elif dpdo:
        yield "the noise is that of the step that made a release, not of the next one, which is less"
    shorter = [name for name in settings.nodes if theory.mesh.node(name).clip_share < 1]
    if shorter:
        yield f"gradients of {listed(shorter)} are cut shorter than others', and regret counts all alike"
