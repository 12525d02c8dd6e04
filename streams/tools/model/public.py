"""Makes the model of a mesh from its broker, for users who may read every edge."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

import numpy as np

from nodes.algorithms import Algorithm
from nodes.values import Average, Consensus, Decision, FloatArray, averaged
from streams.bus.bus import BusError
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.mesh.file import MeshFile
from streams.mesh.model_file import Model
from streams.tools.model.writing import model_of, promised_of_all
from topology.plans import Plan


class _Sum(NamedTuple):
    """Releases added up, in the order of the nodes."""

    members: int
    total: FloatArray

    def plus(self, release: FloatArray) -> "_Sum":
        return _Sum(self.members + 1, self.total + release)


def public_model(file: MeshFile) -> Model:
    """Return the projected mean of all members' newest releases, and its average over the stored rounds.

    A member whose edges are all off in a round publishes nothing for it. Raises BusError, MeshFileError.
    """
    mesh = file.mesh
    algorithm = file.resolved.algorithm
    empty_sum = _Sum(0, np.zeros(mesh.dimension))
    newest, last, rounds = empty_sum, 0, defaultdict[int, _Sum](lambda: empty_sum)
    with closing(reached(file.mesh_broker)) as logs:
        log = MeshLog.of(file, logs)
        plans = log.valid_plans()
        members = next((plan.members for plan in reversed(plans.values()) if plan.members), ())
        for name in sorted(mesh.nodes):
            releases = _released(file, log, name, plans)
            for round, release in releases.items():
                rounds[round] = rounds[round].plus(release)
            if releases and any(member.name == name for member in members):
                newest, last = newest.plus(releases[max(releases)]), max(last, *releases)
    if not newest.members:
        raise BusError(f"{mesh.name}, run {mesh.run}: no edge holds a release yet, so there is no model")
    average = _average(algorithm, rounds)
    return model_of(
        file,
        promised_of_all(file, None),
        _decided(algorithm, last, newest),
        average.mean,
        round=last,
        nodes=newest.members,
        rounds=average.rounds,
        averaged="over the rounds that the topics still hold, of the mean of what was released for each",
    )


def _decided(algorithm: Algorithm, round: int, total: _Sum) -> Decision:
    return algorithm.decide(round, Consensus(algorithm.contain(total.total / total.members)))


def _average(algorithm: Algorithm, rounds: Mapping[int, _Sum]) -> Average:
    (first, *rest) = sorted(rounds)
    average = averaged(None, _decided(algorithm, first, rounds[first]))
    for round in rest:
        average = averaged(average, _decided(algorithm, round, rounds[round]))
    return average


def _released(file: MeshFile, log: MeshLog, node: str, plans: Mapping[int, Plan]) -> dict[int, FloatArray]:
    """Return a node's releases by round, from the instance that the plan names.

    A round with two different values is left out: nobody knows which one counts.
    """
    released: dict[int, FloatArray] = {}
    contradicted: set[int] = set()
    context = file.resolved.node(node).context
    for target in context.targets:
        for _, _, message in log.releases(context.own, [target]):
            plan = plans.get(message.round)
            member = None if plan is None else plan.member(node)
            if member is None or not member.full or member.instance != message.instance:
                continue
            first = released.setdefault(message.round, message.release)
            if first.tobytes() != message.release.tobytes():
                contradicted.add(message.round)
    return {round: release for round, release in released.items() if round not in contradicted}
