"""Runs and records a mesh file's whole mesh in one process, for `run`, `demo` and notebooks."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from nodes.accounting.spends import Spend
from nodes.algorithms import Algorithm
from nodes.learner import Closing, Learner
from nodes.machine.journal import JournalRecord
from nodes.regret import LocalRegret
from nodes.values import Consensus, Decision, Release
from streams.bus.memory import Faults
from streams.ledger import Reuse, data_of, known_spends, stated_apart
from streams.live.spend import begun_life, end_node
from streams.local.mesh import MemoryMesh, MeshParts, NodeParts
from streams.local.recorder import NodeHistory, Recorder, for_the_owner
from streams.local.results import Summary, summarise
from streams.mesh.errors import (
    UsageError,
    writable_folder,
)
from streams.mesh.file import MeshFile
from streams.mesh.settings.mesh import TopologySettings
from streams.metrics.verdict import owner_score
from streams.records.faults import FaultCounts
from streams.records.slot_feed import RecordCounts
from streams.records.sources import check_source, open_source, records_to_score
from streams.state.data_order import check_order, keep_order
from streams.state.spends import all_spends, begin_life, put_aside, to_line
from topology.schedules import Schedule, closing_rounds


def mesh_parts(
    file: MeshFile,
    *,
    seed: int | None = None,
    rounds: int | None = None,
    round_timeout: float | None = None,
    silence: float | None = None,
    labels_apart: bool = False,
) -> MeshParts:
    """Return the parts of the file's mesh, for one process. Raises MeshFileError if a source is missing.

    With slots by time no clock is used: the rounds must be given, and standard input cannot be sorted. `seed`
    and `rounds` replace the file's. No node is silent in one process, so nodes wait for ever, and count as
    live for ever, unless `round_timeout` and `silence`, in seconds of virtual time, are given. Then nothing
    is assumed of the nodes' progress either. Labels on a topic are refused, unless the caller gives them:
    `labels_apart`.
    """
    if seed is not None:
        file = replace(file, mesh=file.mesh.model_copy(update={"seed": seed}))
    settings, mesh = file.mesh, file.resolved
    file.make_code(settings.nodes)
    rounds = settings.rounds if rounds is None else rounds
    if settings.slots.by == "time":
        _check_times(file, rounds)
    nodes = {}
    for name in settings.nodes:
        labels = file.later_labels(name)
        if labels is not None and labels.topic is not None and not labels_apart:
            text = "a topic is read by up and node alone: must not be given to run records here"
            raise file.refuse(("nodes", name, "source", "labels"), text, labels.topic)
        source = open_source(file, name, settings.seed)
        check_source(file, name)
        nodes[name] = NodeParts(
            mesh.node(name).learner,
            mesh.slots,
            source.decoder,
            source.records,
            partial(owner_score, mesh.node(name)),
        )
    scheduler = replace(mesh.scheduler(silence=silence, rounds=rounds), one_process=silence is None)
    prices = {name: mesh.node(name).price for name in settings.nodes}
    return MeshParts(
        mesh.topics,
        mesh.digest,
        settings.horizon,
        scheduler,
        nodes,
        round_timeout,
        prices,
        settings.agreed_text,
    )


def _check_times(file: MeshFile, rounds: int | None) -> None:
    if rounds is None:
        text = "none, and slots by time do not end: must be a number (check proposes some), or give --rounds"
        raise file.refuse(("mesh", "rounds"), text)
    for name, node_settings in file.nodes.items():
        if getattr(node_settings.source, "path", None) == "-":
            text = "with slots by time records are put in order first: must be a file"
            raise file.refuse(("nodes", name, "source", "path"), text, "-")


def _regret(algorithm: Algorithm) -> LocalRegret:
    return LocalRegret(algorithm.observed_set, algorithm.observed)


class LocalSpends:
    """The spends of all nodes, recorded by the same code as for `node`. Create it before journals are opened.

    Journals of another run are put aside. `seed` replaces the file's. `other_data`: the operator states that
    this run's data differ from those of all earlier runs in the folder. Raises MeshFileError or UsageError if
    the run cannot continue in this folder, JournalError.
    """

    def __init__(
        self, file: MeshFile, state: Path, seed: int | None = None, *, other_data: bool = False
    ) -> None:
        writable_folder(state)
        self._file, self.state = file, state
        self._seed = file.mesh.seed if seed is None else seed
        self._other_data = other_data
        self._own: dict[str, Spend] = {}
        self._last: dict[str, JournalRecord | None] = {}
        lives = [spend for name in file.mesh.nodes for spend in all_spends(state, name)]
        learnt = any(spend.charged for spend in lives if spend.run == file.mesh.run)
        check_order(state, file, self._seed, learnt=learnt)
        for name in file.mesh.nodes:
            put_aside(state, name, file.mesh.run)
            if file.mesh.privacy.budget is not None:
                refuse_unknown(state, name, file.mesh.run)

    def begin(self, mesh: MemoryMesh) -> None:
        """Record that the run continues, before its first record is learnt from.

        Raises JournalError, and UsageError if the nodes are at different rounds.
        """
        refuse_torn(mesh, self.state)
        data = {name: data_of(self._file, name, self._seed) for name in mesh.nodes}
        stated = stated_apart(self._file, self.state, data, other_data=self._other_data)
        for name, node in mesh.nodes.items():
            records = node.journal.records()
            self._last[name] = records[-1] if records else None
            life = begun_life(self.state, self._file.resolved, name, self._last[name], ())
            life = life._replace(data=data[name], apart=stated[name])
            self._own[name] = begin_life(self.state, life, fresh=self._last[name] is None)
        lines = {name: to_line(spend) for name, spend in self._own.items()}
        keep_order(self.state, self._file, self._seed, lines)

    def end(self, recorder: Recorder) -> None:
        """Record how far the run has come. Raises JournalError."""
        for name, last in self._last.items():
            newest = recorder.nodes[name].newest or last
            if newest is not None:
                end_node(self.state, self._file.resolved, name, newest)
            spend = self._own[name]
            stored = (life for life in all_spends(self.state, name) if life.identity == spend.identity)
            self._own[name] = next(stored, spend)

    def reuses(self) -> dict[str, Reuse]:
        """Return what is known of each node's data, for its guarantee."""
        return known_spends(self._file, self._own, self.state, own=self._own)


NEW_RUN = "the mesh needs a new run name (the new run counts what was spent)"


def refuse_unknown(state: Path, node: str, run: str) -> None:
    """Raise UsageError if a life of the run may have unknown charges, so that no budget can be kept.

    The process of such a life was killed, and its journal is missing, perhaps with the files beside it.
    Raises JournalError.
    """
    if any(spend.run == run and spend.open for spend in all_spends(state, node)):
        raise UsageError(
            f"{state}: run {run} was not ended in order, and a journal of {node} is gone: nobody knows what "
            f"it has spent of its budget, so {NEW_RUN}"
        )


def refuse_torn(mesh: MemoryMesh, state: Path) -> None:
    """Raise UsageError if the journals are at different rounds, as the missing messages are lost.

    Without a broker, plans and releases under way are lost with the process.
    """
    at = {name: max(map(_round, node.journal.records()), default=0) for name, node in mesh.nodes.items()}
    first, last = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    if at[first] != at[last]:
        mesh.close()
        positions = f"{first} is at round {at[first]:,}, {last} at {at[last]:,}"
        raise UsageError(
            f"{state}: the run in it was not ended in order ({positions}), and without a broker it cannot "
            f"continue: {NEW_RUN}"
        )


def _round(record: JournalRecord) -> int:
    return record.round


# The closing rounds of a run in one process: a view of what its journals end with.
#
# On a broker they are rounds of the plan. Here everything is at hand once the journals are closed: each ends
# with the release of round T + 1, which was charged in round T. The first closing round mixes those, each
# further one what the one before has mixed, all in memory. Nothing is told that was not charged: a relay is a
# function of releases that are. So no journal, round number or slot is used up, and a run that goes on from
# its state begins with round T + 1 as if it had never closed.


def closing_decisions(
    learners: Mapping[str, Learner], schedule: Schedule, records: Mapping[str, JournalRecord]
) -> dict[str, Decision]:
    """Return each node's decision in its last closing round, from the newest records of all nodes.

    They have the bits of those in a run whose plans have closing rounds. A node that has left has none.
    """
    round = max(record.round for record in records.values())
    releases = {name: record.release for name, record in records.items() if record.round == round}
    closing = Closing(next(iter(learners.values())).algorithm, round)
    decisions: dict[str, Decision] = {}
    for number in range(round, round + closing_rounds(schedule, round - 1)):
        names = tuple(name for name in sorted(releases) if not _has_left(learners[name], number))
        if not names:
            break
        stacked = Release(np.stack([releases[name] for name in names]))
        consensus, decided = closing.mix(schedule.weights(number, names), stacked)
        decisions |= zip(names, map(Decision, decided), strict=True)
        relays = [learners[name].relay(Consensus(row)) for name, row in zip(names, consensus, strict=True)]
        releases = dict(zip(names, relays, strict=True))
    return decisions


def _has_left(learner: Learner, round: int) -> bool:
    return learner.leave_from is not None and round >= learner.leave_from


class LocalRun:
    """One run of a mesh in this process. `recorder` has its rounds so far.

    With `spends` the run's journals are in the state folder of `spends`, and the spending known in this
    folder counts. Raises UsageError if the run cannot continue from there, JournalError.
    """

    def __init__(
        self,
        parts: MeshParts,
        *,
        spends: LocalSpends | None = None,
        faults: Faults | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.parts = parts
        self.recorder = Recorder(
            {name: _regret(node.learner.algorithm) for name, node in parts.nodes.items()},
            {name: node.score() for name, node in parts.nodes.items()},
        )
        ids = {} if new_id is None else {"new_id": new_id}
        state = None if spends is None else spends.state
        self.mesh = MemoryMesh(parts, self.recorder, state=state, faults=faults, **ids)
        if spends is not None:
            spends.begin(self.mesh)

    def to_round(self, round: int) -> bool:
        """Run until every node has stepped `round` rounds. Return False if the run ended before."""
        for node in self.recorder.nodes.values():
            while len(node.rounds) < round:
                if not self.mesh.advance():
                    return False
        return True

    @property
    def counts(self) -> dict[str, RecordCounts]:
        """The counts of each node's records: for their owners only."""
        return {name: for_the_owner(node.counts) for name, node in self.mesh.nodes.items()}

    def unread(self, name: str) -> int:
        """Return the number of a node's records after its last step, or all. Reads up to `MOST_COUNTED`."""
        newest = self.recorder.nodes[name].newest
        position = () if newest is None else newest.data_position
        return 0 if position is None else for_the_owner(self.mesh.nodes[name].unread(position))

    def finish(self) -> None:
        """End the run after the last planned round, close its journals, and mix what they end with.

        The mechanisms' secrets are erased; a continued run begins new ones.
        """
        self.mesh.scheduler.end()
        self.mesh.run()
        for node in self.mesh.nodes.values():
            if node.halted:
                node.journal.forget_secret()
        self.mesh.close()
        nodes = self.recorder.nodes
        records = {name: node.newest for name, node in nodes.items() if node.newest is not None}
        if self.parts.scheduler.one_process and self.recorder.common_rounds:
            learners = {name: node.learner for name, node in self.parts.nodes.items()}
            schedule = self.parts.scheduler.schedule
            for name, decision in closing_decisions(learners, schedule, records).items():
                nodes[name].closed = decision


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: `summary`, as `mirrormesh run` prints it, and `nodes`, the rounds of each node."""

    summary: Summary
    nodes: dict[str, NodeHistory]


def nodes_outcome(
    file: MeshFile,
    rounds: int | None = None,
    seed: int | None = None,
    state: Path | None = None,
    *,
    other_data: bool = False,
) -> Outcome:
    """Run a mesh of nodes in this process, to its end; see `streams.tools.model.writing.run`."""
    parts = mesh_parts(file, rounds=rounds, seed=seed)
    tested = FaultCounts()
    test_records = records_to_score(file, tested)
    spends = None if state is None else LocalSpends(file, state, seed, other_data=other_data)
    local = LocalRun(parts, spends=spends)
    with closing(local.mesh):
        while local.to_round(local.recorder.common_rounds + 1):
            pass
        local.finish()
    if spends is not None:
        spends.end(local.recorder)
    reuses = None if spends is None else spends.reuses()
    summary = summarise(
        file, local.recorder, test_records, reuses=reuses, counts=local.counts, left_out=tested.malformed
    )
    return Outcome(summary, local.recorder.nodes)


def without_privacy(file: MeshFile) -> MeshFile:
    """Return the mesh without noise, to show what privacy costs. For data that may be shown."""
    privacy = file.mesh.privacy.model_copy(update={"mechanism": "none", "budget": None})
    nodes = {
        name: overrides.model_copy(update={"mechanism": None}) for name, overrides in file.mesh.nodes.items()
    }
    return replace(file, mesh=file.mesh.model_copy(update={"privacy": privacy, "nodes": nodes}))


def without_neighbours(file: MeshFile) -> MeshFile:
    """Return the mesh without edges, to show what collaboration brings."""
    size = range(len(file.mesh.nodes))
    identity = [[float(i == j) for j in size] for i in size]
    topology = TopologySettings.model_validate({"graph": {"matrix": identity}})
    return replace(file, mesh=file.mesh.model_copy(update={"topology": topology}))
