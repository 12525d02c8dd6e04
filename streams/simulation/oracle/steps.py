"""Repeats every step: mixed from the edges by the plan, charged by the mesh file, with late
releases added.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice, product

import numpy as np

from streams.simulation.history import Reached, SimulatedHistory, Violation
from streams.simulation.oracle.given import (
    Durable,
    Excuses,
    FileFacts,
    FloatArray,
    HandedDecision,
    Repeated,
    Setup,
    close,
)
from streams.simulation.oracle.releases import EdgeLog, WatchedProcess
from streams.simulation.oracle.topology import PlanLog
from streams.simulation.oracle.wire import ReadMember, ReadPlan

READ = 1.0
"""Seconds of calm in which a process reads everything on its edges."""
BITS = 30
"""The number of bits of the grid below a clip's bound."""
MOST_ROWS = 256
"""The largest number of nodes for which a node keeps the product of the closing rounds' weights."""
SUBSETS = 64
"""The largest number of sets of sources that are tried for a listener, as it does not report whom it
heard."""

Draw = tuple[str, int, float]
"""A draw of noise: its kind, its round, and its scale."""
Term = tuple[str, float, FloatArray]
Row = list[tuple[ReadMember, float]]


def summed(terms: list[Term]) -> FloatArray:
    """Return the sum of weights times values in the order of the nodes' ids, so that it is equal
    bit for bit.
    """
    total: FloatArray | None = None
    for _, weight, value in sorted(terms, key=lambda term: term[0].encode()):
        total = weight * value if total is None else total + weight * value
    if total is None:
        raise ValueError("nothing to sum")
    return total


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """How one node is charged. An attribute is None if the oracle has no formula for the file's mechanism.

    `draws`: the kind of noise of a release (None: no noise). `cost`: the epsilon of a release if all records
    of its slot change. `last`: the last round in which the node may learn. `scale`: the noise's scale, in
    steps of the grid. `known`: whether the oracle has the formula. `leaves`: whether the node leaves after
    its budget.
    """

    draws: str | None
    cost: Fraction | None
    last: int | None
    scale: float | None
    known: bool
    leaves: bool

    @classmethod
    def of(cls, file: FileFacts, name: str) -> "NodeAccount":
        """Return the account of a node according to the mesh file."""
        mesh = file.tree["mesh"]
        privacy = dict(mesh["privacy"])
        nodes = mesh["nodes"]
        if isinstance(nodes, Mapping):
            privacy |= {
                key: value
                for key, value in (nodes[name] or {}).items()
                if key not in {"loss", "key", "place"}
            }
        leaves = privacy.get("after_budget") == "leave"
        kind, size = privacy["mechanism"], int(mesh["slots"].get("size", 1))
        if kind == "none":
            return cls(None, None, None, None, known=True, leaves=leaves)
        draws = {"laplace": "laplace", "l2-sphere": "sphere"}.get(kind, "gaussian")
        plain = draws != "gaussian" and not any(
            isinstance(privacy.get(key), Mapping) for key in ("epsilon", "budget")
        )
        if not plain:
            return cls(draws, None, None, None, known=False, leaves=leaves)
        epsilon, budget = Fraction(str(privacy["epsilon"])), privacy.get("budget")
        bounded = None
        if unit := privacy.get("unit"):  # its epsilon is that of all rounds that a unit is in, at all nodes
            bounded = int(mesh["rounds"])
            epsilon /= math.ceil(bounded / int(unit["apart"])) * int(unit.get("sharing", 1))
        cost = size * epsilon
        last = bounded if budget is None else math.floor(Fraction(str(budget)) / cost)
        last = last if last is None or bounded is None else min(last, bounded)
        scale = None
        if (
            kind == "laplace"
            and privacy.get("on", "gradient") == "gradient"
            and "dynamics" not in mesh["algorithm"]
            and "dimension" in mesh  # the oracle does not read the file that `features` names
        ):
            dimension, algorithm = int(mesh["dimension"]), mesh["algorithm"]
            if algorithm["name"] == "class-sums":
                loss = mesh["loss"]
                columns = dimension // (int(loss["softmax"]) if isinstance(loss, Mapping) else 1)
                features = mesh.get("features")
                if isinstance(features, Mapping) and features.get("intercept") == "outside":
                    columns -= 1  # of a constant that no sum has
                bound = math.sqrt(min(int(algorithm.get("entries", columns)), columns))
                scale = laplace_scale(bound, columns, epsilon, counted=True)
            else:
                clip = _clip(mesh["privacy"], (nodes[name] or {}) if isinstance(nodes, Mapping) else {})
                scale = None if clip is None else laplace_scale(clip, dimension, epsilon)
        return cls(draws, cost, last, scale, known=True, leaves=leaves)

    def learns(self, round: int, charged: int) -> bool | None:
        """Return whether a node with this number of charges learns in the round; None if the oracle cannot
        tell.
        """
        if not self.known:
            return None
        return self.last is None or (round <= self.last and charged < self.last)

    def spent(self, charged: int) -> float | None:
        """Return the epsilon of the stream after this number of charges, rounded up; None: unknown."""
        if not self.known:
            return None
        return math.inf if self.cost is None else _rounded_up(charged * self.cost)

    @property
    def leave_from(self) -> int | None:
        """The first round without a node that leaves after its budget is spent; None if it stays."""
        return self.last + 2 if self.leaves and self.last is not None else None


def _clip(shared: Mapping[str, object], own: Mapping[str, object]) -> float | None:
    """Return a node's clip: as given, or shorter as its epsilon is smaller; None: not known."""
    bound = float(str(own.get("gradient_bound", shared["gradient_bound"])))
    if "gradient_bound" in own or "epsilon" not in own:
        return bound
    if shared["mechanism"] != "laplace" or isinstance(shared["epsilon"], Mapping):
        return None
    return bound * min(1.0, float(Fraction(str(own["epsilon"])) / Fraction(str(shared["epsilon"]))))


def laplace_scale(bound: float, dimension: int, epsilon: Fraction, *, counted: bool = False) -> float:
    """Return 2K/epsilon. A record moves the slot's sum by at most 2K steps of the grid in L1.

    The step is the power of two for which bound/step is in [2^29, 2^30). K leaves room for rounding d
    coordinates, and for an additional third if each record's class is `counted`.
    """
    step = 2.0 ** (math.floor(math.log2(bound)) + 1 - BITS)
    count = round(1 / (3 * step)) if counted else 0
    return _rounded_up(2 * (math.ceil(bound / step + dimension / 2) + count) / epsilon)


def _rounded_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


class Steps:
    """Compares each record of a journal with the record that the step must give."""

    def __init__(
        self,
        setup: Setup,
        topology: PlanLog,
        edges: EdgeLog,
        repeated: Repeated,
        excuses: Excuses,
        history: SimulatedHistory,
    ) -> None:
        self._setup, self._topology, self._edges = setup, topology, edges
        self._repeated, self._excuses, self._history = repeated, excuses, history
        self._accounts = {
            (generation, name): NodeAccount.of(file, name)
            for generation, file in setup.files.items()
            for name in file.tree["mesh"]["nodes"]
        }
        slots = next(iter(setup.files.values())).tree["mesh"]["slots"]
        self._by_count, self._by_time = slots["by"] == "count", slots["by"] == "time"
        self._size = int(slots.get("size", 1))
        self.mixed: dict[int, dict[str, FloatArray]] = {}  # by round and node, late releases included

    def account(self, process: WatchedProcess) -> NodeAccount:
        """Return the account of a process's releases."""
        return self._accounts[process.begun.generation, process.name]

    def durable(self, process: WatchedProcess, record: Durable, draws: list[Draw]) -> None:
        """Check a record. The process is in the state before the record. Raises Violation."""
        if record.stepped == 0:
            self._check_first(process, record)
            return
        name = process.name
        self._check_draws(process, record, draws)
        wrong = Violation(f"{name} has stepped round {record.stepped}, for which no plan names it")
        plans = reversed(self._topology.valid.get(record.stepped, []))
        for plan, place in product(plans, (0, -1) if self._is_unsure(process, record) else (0,)):
            try:
                self._check(process, record, plan, place)
            except Violation as violation:
                wrong = violation
            else:
                return
        raise wrong

    def _check(self, process: WatchedProcess, record: Durable, plan: ReadPlan, place: int) -> None:
        """Check a record as a step of this plan.

        `place` is the index of a late release among its edge's values.
        """
        name, member = process.name, plan.member(process.name)
        if member is None or member.instance != process.begun.instance:
            raise Violation(f"{name} has stepped round {record.stepped}, for which no plan names it")
        self._check_evidence(name, record)
        if not member.full:
            self._check_listener(process, record, plan)
            process.lost.clear()  # what it mixes later contains nothing of earlier rounds
            process.steps.clear()
            return
        decision = process.decision
        if decision is None or decision.round != record.stepped:
            raise Violation(f"{name} has stepped round {record.stepped} without a decision")
        row = plan.row(name)
        self._check_given_up(name, record, row)
        terms = self._heard(process, record, decision, row)
        own_weight = self._own_weight(row, terms)
        mixed = summed([*terms, (name, own_weight, process.records[plan.round].value)])
        late = self._late(process, record, place)
        self._check_corrections(process, record)
        consensus = self._consensus(process, plan, mixed, late)
        weights = [*((source, weight) for source, weight, _ in terms), (name, own_weight)]
        point = self._point(name, plan, decision, consensus, weights)
        if self._is_closing(process, plan):
            self._check_relay(process, record, consensus)
        else:
            self._check_step(process, record, consensus, point)
        self.mixed.setdefault(record.stepped, {})[name] = mixed
        for round, added in late:
            self._history.reached.add(Reached.LATE)
            if name in self.mixed.get(round, {}):
                self.mixed[round][name] = self.mixed[round][name] + added

    def _point(
        self,
        name: str,
        plan: ReadPlan,
        decision: HandedDecision,
        consensus: FloatArray,
        weights: list[tuple[str, float]],
    ) -> FloatArray:
        """Return the decision of a consensus. Raises Violation if another one was handed over.

        A closing round decides as the first one, by the product of all weights since. A node whose plans were
        lost may know fewer of them.
        """
        closing = self._topology.closing_before(plan)
        for skipped in range(len(closing) + 1 if self._topology.lost else 1):
            first = closing[skipped] if skipped < len(closing) else plan
            share = self._share(plan, closing[skipped:], weights)
            point = self._repeated.decide(name, first.round, consensus, share)
            if point.tobytes() == decision.point.tobytes():
                return point
        raise Violation(f"the decision of {name} in round {plan.round} is not that of the releases it heard")

    def _share(self, plan: ReadPlan, closing: list[ReadPlan], weights: list[tuple[str, float]]) -> float:
        """Return the sum of squares of the weights, or in a closing round of a row of their product."""
        names = [member.name for member in plan.members]
        if not plan.closing or len(names) > MOST_ROWS or not all(member.full for member in plan.members):
            return float(summed([(source, weight, np.array(weight)) for source, weight in weights]))
        alike: list[ReadPlan] = []
        for before in reversed(closing):
            if [member.name for member in before.members if member.full] != names:
                break
            alike.insert(0, before)
        rows = dict(zip(names, np.eye(len(names)), strict=True))
        for before in alike:
            rows = {name: self._mixed_row(name, before, rows) for name in names}
        mixed = summed([(source, weight, rows[source]) for source, weight in weights])
        return float(np.add.reduce(mixed * mixed))

    def _mixed_row(self, name: str, plan: ReadPlan, rows: Mapping[str, FloatArray]) -> FloatArray:
        terms = [(member.name, weight, rows[member.name]) for member, weight in plan.row(name)]
        return summed([*terms, (name, self._own_weight(plan.row(name), terms), rows[name])])

    # ----------------------------------------------------------------------------------------- mixing

    def _own_weight(self, row: Row, terms: list[Term]) -> float:
        """Return 1 minus all weights, plus the weights of sources that were not heard."""
        total = 0.0
        for _, weight in row:
            total += weight
        rest, names = max(0.0, 1.0 - total), {name for name, _, _ in terms}
        for member, weight in row:
            rest += 0.0 if member.name in names else weight
        return rest

    def _heard(
        self,
        process: WatchedProcess,
        record: Durable,
        decision: HandedDecision,
        row: Row,
    ) -> list[Term]:
        """Return the sources that were mixed, with their values. Each value must be the first on its edge.

        Evidence against a source may come after the decision and before the step that reports it.
        """
        name, edges = process.name, self._setup.files[process.begun.generation].edges
        silent, distrusted = (
            {silent_source.source for silent_source in record.given_up},
            set(record.distrusted),
        )
        counted = [entry for entry in row if entry[0].name not in silent and (entry[0].name, name) in edges]
        doubted = [entry for entry in counted if (entry[0].name, entry[0].instance) in distrusted]
        missing = len(counted) - len(decision.heard)
        if not 0 <= missing <= len(doubted):
            raise Violation(
                f"{name} has heard {len(decision.heard)} of {len(row)} sources in {record.stepped}"
            )
        wrong: list[str] = []
        for left_out in combinations(doubted, missing):
            entries = [entry for entry in counted if entry not in left_out]
            terms = [(*entry, value) for entry, value in zip(entries, decision.heard, strict=True)]
            wrong = [
                source.name for source, _, value in terms if not self._stood(name, source, record, value)
            ]
            if not wrong:
                return [(source.name, weight, value) for source, weight, value in terms]
        text = "is not the first that stood on the edge"
        raise Violation(f"the release of {wrong[0]} that {name} took in {record.stepped} {text}")

    def _stood(self, name: str, source: ReadMember, record: Durable, value: FloatArray) -> bool:
        """Return whether this value of the source for the stepped round was the first on its edge to the
        node.
        """
        return self._edges.may_be_heard((source.name, name, record.stepped, source.instance), value)

    def _check_given_up(self, name: str, record: Durable, row: Row) -> None:
        """Check that the sources that were given up are in the plan, with their lives and weights."""
        planned = {(member.name, member.instance, weight) for member, weight in row}
        wrong = [silent.source for silent in record.given_up if tuple(silent) not in planned]
        if wrong:
            raise Violation(f"{name} gives up {wrong[0]} in {record.stepped} as no plan has it")

    def _check_evidence(self, name: str, record: Durable) -> None:
        """Check that every distrusted source has two values for a round on the edge."""
        for source, instance in record.distrusted:
            if (source, name, instance) not in self._edges.second:
                raise Violation(
                    f"{name} distrusts {source}, of which no two values for a round are on the edge"
                )

    # ----------------------------------------------------------------------------------- late releases

    def _is_unsure(self, process: WatchedProcess, record: Durable) -> bool:
        """Return whether a late release may have either of two values, because the edge has lost
        the first.
        """
        late = {source for round, source in record.corrected if (round, source) in process.lost}
        return any(self._setup.topics[source, process.name] in self._excuses.forgotten for source in late)

    def _late(self, process: WatchedProcess, record: Durable, place: int) -> list[tuple[int, FloatArray]]:
        """Return what late releases add to the consensus of each round: a_ij (q_j - q_i)."""
        name, late = process.name, []
        for round, source in record.corrected:
            silent = process.lost.get((round, source))
            if silent is None:
                raise Violation(f"{name} corrects for {source} in round {round} twice, or for nothing")
            values = self._edges.values.get((source, name, round, silent.instance))
            if not values:
                raise Violation(f"{name} corrects for {source} in round {round}, of whom nothing has come")
            late.append((round, silent.weight * (values[place].value - process.records[round].value)))
        return late

    def _consensus(
        self, process: WatchedProcess, plan: ReadPlan, mixed: FloatArray, late: list[tuple[int, FloatArray]]
    ) -> FloatArray:
        """Return z_t: the mixed values plus those that late releases add, moved by each step since."""
        name, repeated = process.name, self._repeated
        skipped = plan.round - plan.follows - 1 if self._by_time and plan.follows else 0
        if skipped and repeated.moves(name):
            mixed = repeated.contain(name, repeated.moved(name, mixed, skipped))
        for lost_round, added in late:
            times = sum(lost_round <= made_for < plan.round for made_for in process.records)
            mixed = mixed + repeated.carried(name, added, times)
        return repeated.contain(name, mixed) if late else mixed

    def _check_corrections(self, process: WatchedProcess, record: Durable) -> None:
        """Check, after the faults have stopped, that all late releases of the last H steps are corrected."""
        name, excuses = process.name, self._excuses
        since = process.decided_at - READ
        if since < max(excuses.calm_at, process.at):
            return
        oldest = process.steps[-self._setup.horizon :][0] if process.steps else record.stepped
        distrusted = {source for source, _ in record.distrusted} | excuses.liars | set(excuses.clones)
        edges = self._setup.files[process.begun.generation].edges
        for (round, source), silent in process.lost.items():
            values = self._edges.values.get((source, name, round, silent.instance), [])
            topic = self._setup.topics[source, name]
            if round < oldest or source in distrusted or (source, name) not in edges:
                continue
            if topic in excuses.forgotten or not values:
                continue
            if values[0].time < since and (round, source) not in record.corrected:
                raise Violation(f"{name} never makes good the late release of {source} for round {round}")

    # --------------------------------------------------------------------------------------- listeners

    def _check_listener(self, process: WatchedProcess, record: Durable, plan: ReadPlan) -> None:
        """Check that a listener charges nothing, and continues from the equal average of the values that it
        heard.
        """
        name, round, newest = process.name, record.stepped, process.newest
        if not record.exact or (newest is not None and record.charged != newest.charged):
            raise Violation(f"{name} listens in round {round}, and charges or draws")
        if newest is None:
            self._check_carried(process, record, plan)
        edges = self._setup.files[process.begun.generation].edges
        values = {
            member.name: self._edges.first(key)
            for member, _ in plan.row(name)
            if (member.name, name) in edges
            and (key := (member.name, name, round, member.instance)) in self._edges.values
        }
        skipped = plan.round - plan.follows - 1 if self._by_time and plan.follows else 0
        for size in range(len(values), 0, -1):
            for sources in islice(combinations(sorted(values), size), SUBSETS):
                for choice in product(*[values[source] for source in sources]):
                    entries = zip(sources, choice, strict=True)
                    terms = [(source, 1.0 / size, entry.value) for source, entry in entries]
                    moved_average = self._repeated.moved(name, summed(terms), 1 + skipped)
                    if self._repeated.contain(name, moved_average).tobytes() == record.value.tobytes():
                        return
        if record.value.tobytes() != self._alone(process, round).tobytes():
            raise Violation(
                f"{name} listens in round {round}, and is no equal average of what it may have heard"
            )

    def _alone(self, process: WatchedProcess, round: int) -> FloatArray:
        """Return the release of a node that listened and heard nobody: its last one, moved to the
        next round.
        """
        name, newest = process.name, process.newest
        if newest is None:
            return self._repeated.start(name)
        if not self._repeated.moves(name):
            return newest.value
        made_for = newest.stepped + 1 if newest.stepped else newest.round
        return self._repeated.contain(name, self._repeated.moved(name, newest.value, round + 1 - made_for))

    # ----------------------------------------------------------------------------------------- charges

    def _check_first(self, process: WatchedProcess, record: Durable) -> None:
        """Check the first release of a node in the first plan of a run."""
        name = process.name
        plans = [plan for plan in self._topology.valid.get(record.round, []) if plan.follows == 0]
        if not plans or process.newest is not None or not record.exact:
            raise Violation(f"{name} begins in round {record.round}, and may not")
        if record.value.tobytes() != self._repeated.start(name).tobytes():
            raise Violation(f"{name} does not begin at the agreed point")
        self._check_carried(process, record, plans[-1])

    def _check_carried(self, process: WatchedProcess, record: Durable, plan: ReadPlan) -> None:
        """Check the charges at the start of a life against those of earlier lives and of the plans."""
        name, excuses = process.name, self._excuses
        counted = max(process.begun.carried, plan.named.get(name, 0))
        if record.charged != counted:
            raise Violation(f"{name} begins a life with {record.charged} charged rounds: they are {counted}")
        draw_count = self._edges.noisy(name)
        excused = self._setup.topology in excuses.forgotten or name in excuses.clones or name in excuses.liars
        if record.charged < draw_count and not excused and not self._edges.is_unknown(name):
            raise Violation(
                f"{name} begins a life with {record.charged} charged rounds, and has drawn {draw_count}"
            )

    def _check_draws(self, process: WatchedProcess, record: Durable, draws: list[Draw]) -> None:
        """Check that a release has the noise of the node's own settings, or none if it is exact."""
        name, account = process.name, self.account(process)
        if record.exact:
            if draws:
                raise Violation(f"{name} draws in round {record.stepped}, and tells its release as exact")
            return
        scales = [scale for kind, round, scale in draws if (kind, round) == (account.draws, record.stepped)]
        if not scales:
            raise Violation(f"{name} tells of noise in round {record.stepped}, and has not drawn it")
        if account.scale is not None and scales[-1] != account.scale:
            text = f"{scales[-1]:g}: by its own epsilon it is {account.scale:g}"
            raise Violation(f"{name} draws in round {record.stepped} at the scale {text}")

    def _check_charges(self, process: WatchedProcess, record: Durable) -> None:
        """Check what a step has charged and spent, by the node's own epsilon and budget."""
        name, account, round = process.name, self.account(process), record.stepped
        learns = account.learns(round, process.charged)
        if learns is None:  # the oracle has no formula for the mechanism
            learns = record.charged > process.charged
        charged, exact = process.charged + learns, not learns or account.draws is None
        if record.charged != charged or record.exact != exact:
            raise Violation(f"{name} charges {record.charged} rounds after round {round}: it is {charged}")
        spent = account.spent(record.charged)
        if spent is not None and record.spent != spent:
            raise Violation(f"{name} says that {record.charged} rounds cost {record.spent}: it is {spent}")
        if account.last is not None and round > account.last:
            self._history.reached.add(Reached.RELAY)

    # ------------------------------------------------------------------------------------------- steps

    def _is_closing(self, process: WatchedProcess, plan: ReadPlan) -> bool:
        """Return whether a node learns nothing in a round: by the plan, or as it leaves or has no records.

        A wish that came when the round was open counts from the next one on.
        """
        name, round, slot = process.name, plan.round, process.slot
        has_slot = slot is not None and slot.round == round
        leaves = process.wish is not None and round >= process.wish - 1
        must_close = plan.closing > 0 or (leaves and round > process.wished_in)
        if round == process.wished_in and process.wish_before is not None:
            leaves = leaves or round >= process.wish_before - 1
        if must_close and has_slot:
            raise Violation(f"{name} learns in round {round}, which is a closing one")
        if not has_slot and not (must_close or leaves or process.data_ended):
            raise Violation(f"{name} has stepped round {round} without a slot")
        return not has_slot

    def _check_relay(
        self,
        process: WatchedProcess,
        record: Durable,
        consensus: FloatArray,
    ) -> None:
        """Check a round without a slot: what was mixed goes on, and nothing else has changed."""
        name, round, repeated, newest = process.name, record.stepped, self._repeated, process.newest
        value = consensus
        if repeated.moves(name):
            value = repeated.contain(name, repeated.moved(name, consensus, 1))
        if not record.exact or not close(record.value, value):
            raise Violation(f"{name} relays in round {round} another value than it has mixed")
        if newest is None or record.charged != newest.charged or record.offset != newest.offset:
            raise Violation(f"{name} charges or reads in the closing round {round}")
        means = [None if mean is None else mean.tobytes() for mean in (record.mean, newest.mean)]
        if record.decisions != newest.decisions or means[0] != means[1]:
            raise Violation(f"the average of {name}'s decisions counts the closing round {round}")

    def _check_step(
        self,
        process: WatchedProcess,
        record: Durable,
        consensus: FloatArray,
        point: FloatArray,
    ) -> None:
        """Repeat the step with the noise that was drawn, and compare."""
        name, round, repeated = process.name, record.stepped, self._repeated
        span = self._span(process, record)
        self._check_charges(process, record)
        lesson = repeated.learn(process, name, round, consensus, point, process.charged, span)
        if not close(record.value, lesson.value):
            raise Violation(f"the release of {name} after round {round} is not that of its step")
        newest = process.newest
        sum_before = 0.0 if newest is None or newest.mean is None else newest.decisions * newest.mean
        count = 1 if newest is None or newest.mean is None else newest.decisions + 1
        if (
            record.mean is None
            or record.decisions != count
            or not close(record.mean, (sum_before + point) / count)
        ):
            raise Violation(f"the average of {name}'s decisions is wrong after round {round}")
        process.gradients[round] = lesson.gradient, point

    def _span(self, process: WatchedProcess, record: Durable) -> tuple[int, int] | None:
        """Return (first, end) of the offsets that a slot by count has read; None: the journal does not tell.

        Raises Violation if the slot has skipped a record.
        """
        newest, slot = process.newest, process.slot
        first = newest.offset if newest is not None else None
        if not self._by_count or first is None or record.offset is None or slot is None:
            return None
        places, after = list(slot.offsets), record.offset
        if places != list(range(first, first + len(places))) or after != first + len(places):
            raise Violation(
                f"{process.name} reads records {places} in {record.stepped}, from {first} up to {after}"
            )
        if len(places) > self._size:
            raise Violation(f"{process.name} reads {len(places)} records in a slot of {self._size}")
        return first, after


def rows_of(points: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Return the pairs of gradients and decisions as two arrays."""
    gradients, decisions = zip(*points, strict=True)
    return np.array(gradients), np.array(decisions)
