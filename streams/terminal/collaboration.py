"""Describes a collaboration in words: what it would do, what it promises, what it has reached and spent."""

from collections.abc import Iterator, Mapping, Sequence

from nodes.checks import as_text, down_to_digits, up_to_digits
from nodes.privacy.query import QueryMechanism
from streams.collaboration.file import CollaborationFile
from streams.collaboration.settings import CollaborationSettings
from streams.ledger import Reuse, promises_of
from streams.local.scoring import Score
from streams.status.status_poller import PartyStatus
from streams.terminal.report import Fitting, scored, table
from streams.terminal.text import counted, listed, promises

Fact = tuple[str, str]
HARDLY = 0.1
"""An owner's share of the model over its share of the records, below which the model is hardly its own."""


def headline(mesh: CollaborationSettings) -> str:
    """Return a description in one line."""
    records = sum(terms.records for terms in mesh.owners.values())
    return (
        f"{mesh.name}, run {mesh.run}: learner {mesh.learner} and {counted(len(mesh.owners), 'owner')} of "
        f"{records:,} records, dimension {mesh.dimension}, {mesh.loss} loss, {mesh.queries:,} queries"
    )


def facts(file: CollaborationFile) -> Iterator[Fact]:
    """Yield (name, fact) about the collaboration, in the order in which a party asks."""
    mesh, collaboration = file.mesh, file.resolved
    yield "mesh", headline(mesh)
    yield "algorithm", _algorithm(mesh)
    absent = [name for name in mesh.owners if name not in file.owners]
    if absent:
        yield "elsewhere", f"the own part of {listed(absent)} is not here: its owner has it"
    for name, (of_records, of_model) in collaboration.shares.items():
        records, mechanism = collaboration.records[name], collaboration.mechanism(name)
        shares = f"{of_records:.3g} of all, and {of_model:.3g} of the model"
        yield "owner", f"{name}: {records:,} records, {shares}; {noise(mechanism)}"
    for name, (of_records, of_model) in collaboration.shares.items():
        if of_model < HARDLY * of_records:
            less = f"its share of the model is {of_model / of_records:.2g} times that of the records"
            yield "", f"the model is hardly {name}'s: {less}"
    yield "noise", _noise_of_all(file)
    yield from (("warning", line) for line in [*collaboration.dominated, *collaboration.cautions])
    if mesh.noise.simulated is not None:
        yield "WARNING", "THE NOISE IS SIMULATED: IT COMES FROM THE SEED, AND NOTHING IS PROTECTED"
    yield from (("guarantee", sentence) for sentence in promises(promises_of(file)))
    if file.names_brokers and not (file.mesh_broker.users or file.mesh_broker.certificate):
        forged = "forge" if mesh.signatures == "none" else "replay"
        reached = f"anyone who reaches {file.mesh_broker.servers} can {forged}"
        yield "warning", f"the file names no users: {reached} queries and responses"
    waits = "for ever" if mesh.response_timeout is None else f"{mesh.response_timeout:g} s"
    yield "waiting", f"{waits} for an owner's answer on a broker, for ever in one process"


def at_own_delta(made: QueryMechanism) -> str:
    """Return the delta of an owner's answers (its delta over `sharing`), as text behind their epsilon."""
    return f" at delta = {up_to_digits(made.own_delta):.6g}" if made.own_delta else ""


def of_own(made: QueryMechanism) -> str:
    """Return what an owner's answers may spend in all, and why this is less than the owner's epsilon."""
    limit_text = f"{up_to_digits(made.spent(made.queries)):,.6g}"
    if made.sharing == 1:
        return limit_text
    return f"{limit_text} (its epsilon of {as_text(made.epsilon)} over {made.sharing}, sharing)"


def _algorithm(mesh: CollaborationSettings) -> str:
    eta = f", regulariser {mesh.regulariser:g}" if mesh.regulariser else ""
    if mesh.algorithm.name == "averaged":
        return f"steps of {mesh.algorithm.step:g}/sqrt(k), and the average of theta is the model{eta}"
    return f"steps of {mesh.algorithm.rho:g}/(T^2 k), and the last theta is the model{eta}"


def noise(made: QueryMechanism) -> str:
    """Return the noise on an owner's answers, and the guarantee for which it is chosen."""
    delta = f", delta {made.delta!r}" if made.delta else ""
    shared = f" over {made.sharing} (sharing)" if made.sharing > 1 else ""
    return (
        f"{made.name}, epsilon {as_text(made.epsilon)}{delta}{shared} for all answers; noise on a coordinate "
        f"of an answer: standard deviation {made.noise_deviation:.3g}"
    )


def _noise_of_all(file: CollaborationFile) -> str:
    """Return the ratio of the weighted sum's noise to the longest signal that the clip allows."""
    lengths = file.resolved.noise_lengths
    length, other_length = lengths.values()
    return (
        f"that of all answers together is {length:.3g} times as long as the mean gradient can be (as the "
        f"clip allows); with weights: {list(lengths)[1]} {other_length:.3g} times"
    )


def spending(file: CollaborationFile, owner: str, charged: int, reuse: Reuse) -> Iterator[Fact]:
    """Yield what an owner has spent in `charged` answers, what is left, and what all its runs cost."""
    mechanism = file.resolved.mechanism(owner)
    spent, limit = mechanism.spent(charged), mechanism.spent(mechanism.queries)
    delta = at_own_delta(mechanism)
    yield "owner", f"{owner}: {charged:,} of {mechanism.queries:,} queries answered"
    if mechanism.simulated:
        yield "spent", "everything: nothing is protected"
        return
    yield "spent", f"epsilon {up_to_digits(spent):,.6g}{delta} of {of_own(mechanism)}"
    queries_left = mechanism.queries - charged
    yield "left", f"epsilon {down_to_digits(max(0.0, limit - spent)):,.6g}, for {queries_left:,} more"
    yield "guarantee", promises_of(file, {owner: reuse})[owner].sentence


def result(scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield how well the vectors predict the held-out records. The last vector is the model."""
    for k, (subject, score) in enumerate(scores.items(), 1):
        model = " (the model)" if k == len(scores) else ""
        yield f"Held-out, {counted(score.records, 'record')}, {subject}{model}: {scored(score)}."


# Shows the progress of a collaboration as a line or as a table.

SILENT = 5.0
"""Seconds without a heartbeat after which a party counts as silent. It sends a heartbeat each second."""


def line(mesh: CollaborationSettings, parties: Sequence[PartyStatus]) -> str:
    """Return the state of the collaboration in one line."""
    learner, *owners = parties
    number = min(learner.query, mesh.queries)
    parts = [f"query {number:,} of {mesh.queries:,}" if number else "nothing asked yet"]
    if learner.query > mesh.queries:
        parts.append("the learner is done")
    elif _state(learner) != "heard":
        parts.append(f"learner {learner.name} {_state(learner)}")
    return "; ".join([*parts, *map(_owner, owners)])


def parties_table(mesh: CollaborationSettings, parties: Sequence[PartyStatus]) -> Fitting:
    """Return a table of the learner and the owners."""
    learner, *owners = parties
    rows = [(learner.name, "learner", f"asked {min(learner.query, mesh.queries):,}", _state(learner))]
    rows += [(owner.name, "owner", f"answered {owner.query:,}", _state(owner)) for owner in owners]
    return table(("party", "role", "last query", "heartbeats"), rows)


def _owner(owner: PartyStatus) -> str:
    state = _state(owner)
    return f"{owner.name} answered {owner.query:,}" + ("" if state == "heard" else f", {state}")


def _state(party: PartyStatus) -> str:
    if party.age is None:
        return "never heard"
    return "heard" if party.age <= SILENT else f"silent for {party.age:,.0f} s"
