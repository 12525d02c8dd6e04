"""Summarises a run in one process, and writes its files."""

import csv
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from nodes.accounting.guarantee import Guarantee
from nodes.checks import as_text, rounded_up
from nodes.regret import network_regret
from nodes.sparse import Rows
from nodes.values import FloatArray
from streams.ledger import Promise, Reuse, known_spends, lives_of
from streams.local.recorder import NodeHistory, Recorder
from streams.local.scoring import Score, score
from streams.mesh.errors import check_output
from streams.mesh.file import MeshFile
from streams.metrics.judgement import as_tree
from streams.metrics.verdict import Verdict
from streams.records.slot_feed import RecordCounts

# The network's regret of a run, which only a party that runs all nodes can know.

MOST = 1 << 28
"""The largest number of numbers in all gradients, of each record at each node's decision: about a second's
work."""


def largest_network_regret(file: MeshFile, recorder: Recorder) -> float | None:
    """Return the largest R_T^i/T of a node, over all nodes' losses, against one decision for the whole run.

    Returns None if the computation would take long, for a user-defined loss, if the result is no number, and
    for class sums and moments, which minimise no loss.
    """
    mesh, rounds, batch_size = file.mesh, recorder.common_rounds, file.mesh.slots.size
    numbers = rounds * len(mesh.nodes) ** 2 * batch_size * mesh.dimension
    unknown = any(loss.own is not None for loss in file.resolved.losses) or mesh.algorithm.alone
    if rounds == 0 or numbers > MOST or unknown:
        return None
    algorithm = file.resolved.algorithm
    with np.errstate(all="ignore"):  # records may overflow
        regret = network_regret(
            [file.resolved.node(name).loss for name in recorder.nodes],
            algorithm.observed_set,
            algorithm.observed(recorder.decisions()),
            recorder.observations(batch_size),
        )
    largest = float(regret[-1].max()) / rounds
    return largest if math.isfinite(largest) else None


# Summarises a run in one process: the values of its table and its `summary.json`.


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """One node over the common rounds.

    `regret` is R_T/T, local and first-order. `stream_epsilon` is the epsilon of the node's whole stream
    (stream level), None if nothing is protected. `malformed` counts the records that could not be decoded;
    `untimed`, `late` and `overfull` count records that entered no slot; `learnt` counts records that entered
    a slot and could be decoded. `verdict`: how good its decisions are on its own records; None for a loss
    without a label to predict. Counts are None if nobody counted (records.slot_feed.RecordCounts). Regret
    and these counts are private figures. `decision` is that of the last closing round, `average` the average
    over the `averaged` rounds of the current life of the node's journal; both are public.
    """

    name: str
    regret: float
    stream_epsilon: float | None
    malformed: int
    guarantee: Guarantee
    decision: tuple[float, ...] = ()
    average: tuple[float, ...] = ()
    averaged: int = 0
    reuse: Reuse | None = None
    untimed: int = 0
    late: int = 0
    overfull: int = 0
    learnt: int | None = None
    verdict: Verdict | None = None

    @property
    def promise(self) -> Promise:
        """The guarantee, over this run and all that is known of the node's data."""
        return Promise(self.name, self.guarantee, self.reuse)

    @property
    def event_epsilon(self) -> Fraction | None:
        """The epsilon of one record, over all known runs (event level); None if nothing is protected."""
        return self.promise.epsilon

    @property
    def epsilon(self) -> str | None:
        """`event_epsilon` in words."""
        return None if self.event_epsilon is None else as_text(self.event_epsilon)

    @property
    def promised(self) -> str:
        """The guarantee in words, with the effect of earlier runs."""
        return self.promise.sentence


@dataclass(frozen=True, slots=True)
class Summary:
    """A run. `rounds`: the rounds in which every node had a slot, `first_round` to `last_round`.

    `decision` is the mean of the nodes' decisions in the last closing round, shape (d,), and `score` its
    score; `average` and `average_score` are those of their running averages, none of a run of one round.
    `left_out`: held-out records that cannot be decoded. `network_regret`: R_T/T over all nodes' losses, the
    largest of a node; None where it is not known.
    `minimises`: whether decisions minimise the loss; regret has no meaning where they do not.
    """

    mesh: str
    run: str
    interrupted: bool
    rounds: int
    first_round: int
    last_round: int
    decision: tuple[float, ...]
    nodes: tuple[NodeSummary, ...]
    score: Score | None
    average: tuple[float, ...] = ()
    average_score: Score | None = None
    left_out: int = 0
    network_regret: float | None = None
    minimises: bool = True

    @property
    def protected(self) -> str:
        """What the nodes' epsilon is of: `record`, or the name of the units' column."""
        return self.nodes[0].guarantee.protected if self.nodes else "record"

    @property
    def zeros(self) -> float:
        """The share of the decision's coordinates that are 0."""
        return self.decision.count(0.0) / max(1, len(self.decision))

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        nodes = [
            {
                "name": node.name,
                "regret_per_round": node.regret if self.minimises else None,
                "epsilon_of_a_record": None if node.event_epsilon is None else rounded_up(node.event_epsilon),
                "epsilon_of_the_stream": node.stream_epsilon,
                "malformed": node.malformed,
                "dropped": {"untimed": node.untimed, "late": node.late, "overfull": node.overfull},
                "guarantee": node.promised,
                "decision": node.decision,
                "average": node.average,
                "averaged": node.averaged,
            }
            | ({} if node.verdict is None else {"verdict": as_tree(node.verdict)})
            for node in self.nodes
        ]
        return asdict(replace(self, nodes=())) | {"nodes": nodes}


def summarise(
    file: MeshFile,
    recorder: Recorder,
    held_out: tuple[Rows, FloatArray] | None,
    *,
    interrupted: bool = False,
    reuses: Mapping[str, Reuse] | None = None,
    counts: Mapping[str, RecordCounts] | None = None,
    left_out: int = 0,
) -> Summary:
    """Return the summary of the rounds that all nodes have stepped.

    `reuses`: what is known of other spending on the nodes' data (None: what the mesh file tells). `counts`:
    of each node's records. `left_out`: the number of held-out records that cannot be decoded.
    """
    mesh, rounds = file.mesh, recorder.common_rounds
    if reuses is None:
        reuses = known_spends(file, recorder.nodes, own=lives_of(file, _charges(recorder)))
    decisions: Iterable[FloatArray] = recorder.last_decisions() if rounds else [np.empty(0)] * len(mesh.nodes)
    nodes = tuple(
        _with(_node(file, name, history, rounds, last, reuses.get(name)), (counts or {}).get(name))
        for (name, history), last in zip(recorder.nodes.items(), decisions, strict=True)
    )
    if rounds == 0:
        return Summary(mesh.name, mesh.run, interrupted, 0, 0, 0, (), nodes, None)
    recorder.keep_back(held_out)
    nodes = tuple(
        replace(node, verdict=recorder.verdict(node.name, np.array(node.decision))) for node in nodes
    )
    decision = np.mean([node.decision for node in nodes], axis=0)
    averaged = min(node.averaged for node in nodes) > 1  # else it is x_1, made before any record
    average = np.mean([node.average for node in nodes], axis=0) if averaged else None
    numbers = next(iter(recorder.nodes.values())).rounds
    loss, observed = file.resolved.loss, file.resolved.algorithm.observed
    return Summary(
        mesh.name,
        mesh.run,
        interrupted,
        rounds,
        numbers[0],
        numbers[rounds - 1],
        tuple(decision.tolist()),
        nodes,
        None if held_out is None else score(loss, observed(decision), *held_out),
        () if average is None else tuple(average.tolist()),
        None if held_out is None or average is None else score(loss, observed(average), *held_out),
        left_out,
        largest_network_regret(file, recorder),
        mesh.algorithm.steps,
    )


def _with(node: NodeSummary, counts: RecordCounts | None) -> NodeSummary:
    if counts is None:
        return node
    return replace(
        node, untimed=counts.untimed, late=counts.late, overfull=counts.overfull, learnt=counts.learnt
    )


def _charges(recorder: Recorder) -> dict[str, tuple[int, float]]:
    """Return the rounds that each node has charged, and what its stream has cost."""
    last = {name: history.newest for name, history in recorder.nodes.items()}
    return {
        name: (0, 0.0) if newest is None else (newest.charged, newest.epsilon_spent)
        for name, newest in last.items()
    }


def spent(history: NodeHistory, rounds: int) -> list[float]:
    """Return the stream-level epsilon spent by the end of each of the first `rounds` rounds."""
    by_round = {record.stepped: record.epsilon_spent for record in history.records}
    return [by_round[number] for number in history.rounds[:rounds]]


def _stream(guarantee: Guarantee, spent: float, reuse: Reuse | None) -> float | None:
    """Return the stream-level epsilon over all known runs; None if it is not known."""
    if not guarantee.protects:
        return None
    if reuse is None or not Promise("", guarantee, reuse).added:
        return spent
    epsilon = reuse.total.stream_epsilon
    return None if epsilon is None else rounded_up(epsilon)


def _node(
    file: MeshFile, name: str, history: NodeHistory, rounds: int, decision: FloatArray, reuse: Reuse | None
) -> NodeSummary:
    guarantee, newest = file.resolved.node(name).guarantee, history.newest
    paid = 0.0 if newest is None else newest.epsilon_spent  # it may have learnt on while others relayed
    if not rounds or newest is None or newest.average is None:
        return NodeSummary(name, 0.0, _stream(guarantee, paid, reuse), 0, guarantee, reuse=reuse)
    return NodeSummary(
        name,
        history.regrets[rounds - 1] / rounds,
        _stream(guarantee, paid, reuse),
        sum(int((~observed.present).sum()) for observed in history.observations[:rounds]),
        guarantee,
        tuple(decision.tolist()),
        tuple(newest.average.mean.tolist()),
        newest.average.rounds,
        reuse,
    )


# Writes the files of a run: each whole under another name first, then renamed.
#
# Regret and counts have no noise, so only the owner may read their files (mode 0600), even over older ones.

ROUNDS, SUMMARY, MODEL = "rounds.csv", "summary.json", "model"


def write_results(folder: Path, recorder: Recorder, summary: Summary) -> tuple[Path, Path]:
    """Write the rounds and `summary.json` into the folder; return their paths. Raises OSError.

    The rounds of a continued run go into a file beside the earlier ones: `rounds-from-501.csv`.
    """
    rounds = ROUNDS if summary.first_round == 1 else f"rounds-from-{summary.first_round}.csv"
    write_rounds(folder / rounds, recorder, len(summary.decision), regret=summary.minimises)
    text = json.dumps(summary.as_json(), indent=2, allow_nan=False)
    write_whole(folder / SUMMARY, f"{text}\n".encode(), private=True)
    return folder / rounds, folder / SUMMARY


def write_rounds(path: Path, recorder: Recorder, dimension: int, *, regret: bool = True) -> None:
    """Write one row per round and node, over the rounds that every node has stepped. Raises OSError.

    The column `regret` is local R_T, and is left out if regret has no meaning. `gap` is max_j ||q_j - q_i||
    over the releases that the node heard. `epsilon_spent` is stream-level.
    """
    common = recorder.common_rounds
    spends = {name: spent(node, common) for name, node in recorder.nodes.items()}
    coordinates = [f"decision_{k + 1}" for k in range(dimension)]
    rows = (
        [
            node.rounds[t],
            name,
            *node.decisions[t].tolist(),
            *([node.regrets[t]] if regret else ()),
            node.gaps[t],
            spends[name][t],
        ]
        for t in range(common)
        for name, node in recorder.nodes.items()
    )
    figures = ["regret", "gap", "epsilon_spent"] if regret else ["gap", "epsilon_spent"]
    write_csv(path, ["round", "node", *coordinates, *figures], rows, private=True)


def write_columns(path: Path, columns: dict[str, FloatArray]) -> None:
    """Write arrays of shape (T,) as columns. Raises OSError."""
    write_csv(path, list(columns), zip(*(values.tolist() for values in columns.values()), strict=True))


def write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, private: bool = False
) -> None:
    """Write a table, floats with all their digits. Raises OSError."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode(), private=private)


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write the file, or leave the old one unchanged; `private`: mode 0600. Raises OSError."""
    save_whole(path, lambda unfinished: unfinished.write_bytes(content), private=private)


def save_whole(path: Path, save: Callable[[Path], object], *, private: bool = False) -> None:
    """Call `save` with another name, then rename the file.

    `private`: the file's mode is 0600; otherwise the process's mask sets the mode. Raises UsageError for a
    file that the current command reads, OSError, which names `path`, and the exceptions of `save`.
    """
    check_output(path)
    try:
        _save_beside(path, save, private=private)
    except OSError as error:  # of a full disk it names no file, or the unfinished one
        error.filename = str(path)
        raise


def _save_beside(path: Path, save: Callable[[Path], object], *, private: bool) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(descriptor)
    unfinished = Path(name)
    try:
        save(unfinished)
        unfinished.chmod(0o600 if private else 0o666 & ~_umask())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
