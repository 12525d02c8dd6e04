"""Checks, at the end, that nothing was lost on the way: sums over nodes, and regret counted twice."""

import numpy as np

from nodes.machine.events import Scored
from nodes.machine.journal import JournalRecord
from nodes.regret import LocalRegret
from nodes.values import FloatArray
from streams.local.recorder import for_the_owner
from streams.simulation.checks.facts import Facts
from streams.simulation.checks.life import Life, close
from streams.simulation.history import Violation
from streams.simulation.stage import Scene


class TotalChecks:
    """Sums of each round over all nodes, and of each process over its rounds."""

    def __init__(self, facts: Facts, scene: Scene) -> None:
        self._facts, self._learners = facts, scene.again
        self._missing: dict[tuple[str, int], set[str]] = {}
        self._own: dict[int, dict[str, FloatArray]] = {}
        self._partial: set[int] = set()

    def journalled(self, name: str, life: Life, record: JournalRecord) -> None:
        """Take a step that was checked."""
        round, decided = record.stepped, life.decided
        if decided is None or decided.round != round:
            return
        self._own.setdefault(round, {})[name] = decided.own
        self._missing[name, round] = {lost.source for lost in record.given_up}
        for lost_round, source in record.corrected:
            self._missing.get((name, lost_round), set()).discard(source)
        if len(decided.heard) + len(record.given_up) < len(decided.edges):
            self._partial.add(round)  # a source that nobody trusts any more

    def scored(self, name: str, life: Life, scored: Scored) -> None:
        """Check the slot's score, and the owner's regret, which is made of it.

        The regret is counted again from the journal's records and decisions, by its definition.
        """
        gradient, decision = life.gradients.get(scored.round, (None, None))
        if gradient is None or decision is None:
            raise Violation(f"{name} scores round {scored.round}, which it has not stepped")
        if not close(for_the_owner(scored.gradient), gradient) or not close(scored.decision, decision):
            raise Violation(f"{name} scores another gradient or decision in round {scored.round} than it had")
        algorithm = self._learners[name].algorithm
        if life.regret is None:
            life.regret = LocalRegret(algorithm.observed_set, algorithm.observed)
        life.regret.add(scored.gradient, scored.decision)
        life.scored[scored.round] = gradient, algorithm.observed(decision)
        gradients, decisions = map(np.array, zip(*life.scored.values(), strict=True))
        again = (gradients * decisions).sum() + algorithm.observed_set.support(-gradients.sum(0))
        if not close(np.array(for_the_owner(life.regret.value())), np.array(again)):
            raise Violation(f"the regret of {name} after round {scored.round} is not that of its journal")

    def finish(self, mixed: dict[int, dict[str, FloatArray]]) -> int:
        """Check the sums over nodes of every whole round; return how many there were. Raises Violation."""
        whole = 0
        for round, found in mixed.items():
            plans = self._facts.plans[round]
            names = [member.name for member in plans[0].members if member.full]
            own = self._own.get(round, {})
            complete = all(name in found and not self._missing[name, round] for name in names)
            excused = (self._facts.rolled_back | self._facts.liars) & set(names)
            excused |= self._facts.two_valued(round)  # who heard which of them is told by no plan
            if not complete or round in self._partial or excused or len(plans) > 1:
                continue
            whole += 1
            after = np.add.reduce([found[name] for name in names])
            before = np.add.reduce([own[name] for name in names])
            if not close(after, before):
                raise Violation(f"the consensus values of round {round} do not add up to its releases")
        return whole
