"""Counts every step again: consensus and decision from the edges, the release from its noise, the charges."""

from itertools import product

from nodes.machine.events import Decided
from nodes.machine.journal import JournalRecord
from nodes.mixing import Term, mixed
from nodes.privacy.private import Private
from nodes.values import Consensus, FloatArray, Observations
from streams.local.recorder import for_the_owner
from streams.records.observed import observed
from streams.simulation.checks.facts import Facts
from streams.simulation.checks.life import Life, close
from streams.simulation.history import Reached, Violation
from streams.simulation.stage import Scene
from topology.plans import Member, Place, Plan


class StepChecks:
    """Holds each record of a journal against what it must be."""

    def __init__(self, facts: Facts, scene: Scene) -> None:
        self._facts, self._scene, self._learners = facts, scene, scene.again
        self.mixed: dict[int, dict[str, FloatArray]] = {}  # by round and node: z_t^i, with late releases

    def journalled(self, name: str, life: Life, record: JournalRecord) -> None:
        """Check a record; `life` is what was before it. Raises Violation."""
        if record.stepped == 0:
            return
        wrong = Violation(f"{name} has stepped round {record.stepped}, for which no plan names it")
        plans = reversed(self._facts.plans.get(record.stepped, []))
        for plan, which in product(plans, (0, -1) if self._is_unsure(name, life, record) else (0,)):
            try:
                self._check(name, life, record, plan, which)
            except Violation as found:
                wrong = found
            else:
                return
        raise wrong

    def _is_unsure(self, name: str, life: Life, record: JournalRecord) -> bool:
        """Return whether a late release may be either of two values, as the edge has lost the first."""
        late = [(source, life.lost.get((round, source))) for round, source in record.corrected]
        edges = {self._facts.parts.topics.edge(source, name) for source, lost in late if lost is not None}
        return bool(edges & self._facts.forgotten)

    def _check(self, name: str, life: Life, record: JournalRecord, plan: Plan, which: int) -> None:
        """Check a record as a step of that plan; `which` of the values that stood were the late ones."""
        decided, place = life.decided, plan.place(name)
        if place is None or place.member.instance != life.instance:
            raise Violation(f"{name} has stepped round {record.stepped}, for which no plan names it")
        if not place.member.full:
            self._check_listener(name, life, record)
            return
        if decided is None or decided.round != record.stepped:
            raise Violation(f"{name} has stepped round {record.stepped} without a decision")
        mixed_now, late = self._mix(name, life, record, decided, place, which)
        self._check_position(name, life, record)
        self._check_step(name, life, record, decided, self._consensus(name, life, record, mixed_now, late))
        self.mixed.setdefault(record.stepped, {})[name] = mixed_now
        for round, added in late:
            self._facts.history.reached.add(Reached.LATE)
            if name in self.mixed.get(round, {}):
                self.mixed[round][name] = self.mixed[round][name] + added

    def _check_listener(self, name: str, life: Life, record: JournalRecord) -> None:
        if not record.exact or (life.began and record.charged != life.charged):
            raise Violation(f"{name} listens in round {record.stepped}, and charges or draws")

    def _mix(
        self, name: str, life: Life, record: JournalRecord, decided: Decided, place: Place, which: int
    ) -> tuple[FloatArray, list[tuple[int, FloatArray]]]:
        """Return what is mixed of the values on the edges, and what late ones add to which rounds."""
        heard = self._heard(name, record, decided, place)
        terms: list[Term] = [(one.name, weight, value) for one, weight, value in heard]
        rest = place.own_weight
        names = {name for name, _, _ in terms}
        for member, weight in place.row:
            rest += 0.0 if member.name in names else weight
        late = []
        for round, source in record.corrected:
            lost = life.lost.get((round, source))
            if lost is None:
                raise Violation(f"{name} corrects for {source} in round {round} twice, or for nothing")
            stood = self._facts.values[source, name, round, lost.instance][which].release
            late.append((round, lost.weight * (stood - life.own[round])))
        return mixed([*terms, (name, rest, life.own[record.stepped])]), late

    def _consensus(
        self,
        name: str,
        life: Life,
        record: JournalRecord,
        found: FloatArray,
        late: list[tuple[int, FloatArray]],
    ) -> Consensus:
        """Return z_t: what was mixed, and what late releases add."""
        for round, added in late:
            found = found + self._moved(name, life, added, round, record.stepped)
        return Consensus(self._learners[name].algorithm.contain(found) if late else found)

    def _moved(self, name: str, life: Life, missing: FloatArray, lost_round: int, round: int) -> FloatArray:
        """Return what was missing in a round, moved by each step since as it would have been in time."""
        dynamics = self._learners[name].algorithm.dynamics
        times = sum(lost_round <= stepped < round for stepped in life.own)
        return missing if dynamics is None else dynamics.moved(missing, times)

    def _heard(
        self, name: str, record: JournalRecord, decided: Decided, place: Place
    ) -> list[tuple[Member, float, FloatArray]]:
        """Return the sources that count with their values: the first ones that stood on their edges."""
        given_up = {lost.source for lost in record.given_up}
        row = [entry for entry in place.row if entry[0].name not in given_up]
        trusted = [entry for entry in row if (entry[0].name, entry[0].instance) not in record.distrusted]
        counted = row if len(row) == len(decided.heard) else trusted
        if len(counted) != len(decided.heard):
            raise Violation(
                f"{name} has heard {len(decided.heard)} of {len(row)} sources in {record.stepped}"
            )
        for (source, _), value in zip(counted, decided.heard, strict=True):
            key = source.name, name, record.stepped, source.instance
            if not self._facts.is_heard(key, value):
                said = "is not the first that stood on the edge"
                raise Violation(f"the release of {source.name} that {name} took in {record.stepped} {said}")
        return [(*entry, value) for entry, value in zip(counted, decided.heard, strict=True)]

    def _check_step(
        self, name: str, life: Life, record: JournalRecord, decided: Decided, consensus: Consensus
    ) -> None:
        """Repeat the step with the noise that was drawn."""
        learner, foreseen, round = self._learners[name], life.foreseen, record.stepped
        decision = learner.algorithm.decide(round, consensus)
        if not close(decision, decided.decision):
            raise Violation(f"the decision of {name} in round {round} is not that of the releases it heard")
        if foreseen is None or foreseen.round != round:
            raise Violation(f"{name} has stepped round {round} without a slot")
        observations = self._observed(name, life, record, foreseen.observations)
        lesson = learner.learn(round, consensus, decision, observations, life.charged, life.secret)
        if record.charged != lesson.charged or record.exact != lesson.exact:
            raise Violation(
                f"{name} charges {record.charged} rounds after round {round}: it is {lesson.charged}"
            )
        if not close(record.release, lesson.release):
            raise Violation(f"the release of {name} after round {round} is not that of its step")
        self._check_spent(name, record)
        before = life.average
        known = 0.0 if before is None else before.rounds * before.mean
        count = 1 if before is None else before.rounds + 1
        average = record.average
        if average is None or average.rounds != count or not close(average.mean, (known + decision) / count):
            raise Violation(f"the average of {name}'s decisions is wrong after round {round}")
        life.gradients[round] = for_the_owner(lesson.gradient), decision

    def _check_spent(self, name: str, record: JournalRecord) -> None:
        """Check what was charged, and that a release, and the stream, cost no more than is promised."""
        learner, promised = self._learners[name], self._scene.promised[name].epsilon
        ledger, costs = learner.ledger, learner.mechanism.epsilon
        if not record.exact and promised is not None and (costs is None or costs > promised):
            raise Violation(f"{name} draws a release at epsilon {costs}, and promises {promised}")
        # a lost journal's charges are the plans that named it, relays too: then more may stand there
        if not record.exact and ledger.budget is not None and record.epsilon_spent > ledger.budget:
            raise Violation(f"{name} has spent {record.epsilon_spent}, and promises {ledger.budget}")
        last = ledger.last_learning_round
        if record.epsilon_spent != ledger.spent(record.charged, record.stepped):
            raise Violation(f"{name} says that {record.charged} rounds cost {record.epsilon_spent}")
        if last is None:
            return
        if not record.exact and record.stepped > last:
            raise Violation(f"{name} learns in round {record.stepped}, beyond its budget's last: {last}")
        if record.stepped > last:
            self._facts.history.reached.add(Reached.RELAY)

    def _check_position(self, name: str, life: Life, record: JournalRecord) -> None:
        """Check, for slots by count, that no record is passed over."""
        span = self._span(life, record)
        if span is None:
            return
        first, after = span
        places = [offset for _, offset in life.places]
        if places != list(range(first, first + len(places))) or after != first + len(places):
            raise Violation(f"{name} reads records {places} in {record.stepped}, from {first} up to {after}")

    def _span(self, life: Life, record: JournalRecord) -> tuple[int, int] | None:
        """Return from where to where the journal says that a slot by count read; None: it does not say."""
        if not self._scene.by_count or life.position is None or record.data_position is None:
            return None
        first = life.position[0][1] if life.position else 0
        return first, record.data_position[0][1] if record.data_position else first

    def _observed(
        self, name: str, life: Life, record: JournalRecord, told: Private[Observations]
    ) -> Private[Observations]:
        """Return the observations of the slot that the journal names; what was told, if it names none."""
        span = self._span(life, record)
        if span is None:
            return told
        values = tuple([one.value for one in self._scene.records[name][slice(*span)]])
        return Private(observed(values, self._scene.parts.nodes[name].decoder))
