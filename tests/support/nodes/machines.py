"""A node machine with small, hand-checkable parts, and events to feed it."""

from fractions import Fraction

import numpy as np

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Constant, dpdo_nc
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Learner
from nodes.losses.losses import Squared
from nodes.machine.events import PlanArrived, ReleaseArrived, SlotClosed, Started
from nodes.machine.journal import ReleaseMessage
from nodes.machine.machine import NodeMachine
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.privacy.unprotected import Unprotected
from nodes.protocol import Identity
from nodes.values import Observations, Release
from topology.plans import Member, Plan

HORIZON = 4
INSTANCES = {name: letter * 32 for name, letter in zip("abcd", "1234", strict=True)}
THIRD = 1.0 / 3.0


def learner(*, budget=None, after_budget="relay", private=False, loss=None, step=0.5, dimension=2):
    """Squared loss, Euclidean map, L2 ball of radius 100; no noise unless `private` (simulated)."""
    epsilon = Fraction(1)
    mechanism = (
        LaplaceGradient(1.0, epsilon, 1, dimension, SimulatedSampler(0, "a"))
        if private or budget
        else Unprotected(1e6, "l2", 1, dimension)
    )
    return Learner(
        dpdo_nc(mirror_step(Euclidean(), L2Ball(dimension, 100.0)), Constant(step)),
        loss or Squared(),
        mechanism,
        Ledger(mechanism.epsilon, 1, Fraction(budget) if budget else None),
        1,
        after_budget,
    )


def machine(parts=None, *, sources=("b", "c"), deadlines=False, name="a", isolates=True):
    """A machine of node `name` with in-edges from `sources`."""
    who = Identity(name, "run-1", INSTANCES[name], "f" * 32)
    return NodeMachine(who, parts or learner(), sources, HORIZON, deadlines=deadlines, isolates=isolates)


def plan(round, edges=None, *, follows=None, listeners=(), instances=None, names="abc", named=(), closing=0):
    """A plan of `names` with edges {(source, target): weight}; by default all to all, a third each."""
    if edges is None:
        full = [name for name in names if name not in listeners]
        edges = {(s, t): THIRD for s in full for t in full if s != t}
    ids = INSTANCES | (instances or {})
    ordered = sorted(edges, key=lambda edge: (edge[1], edge[0]))
    return Plan(
        "run-1",
        round,
        round - 1 if follows is None else follows,
        tuple(Member(name, ids[name], name not in listeners) for name in names),
        np.array([names.index(s) for s, _ in ordered], dtype=np.int64),
        np.array([names.index(t) for _, t in ordered], dtype=np.int64),
        np.array([edges[edge] for edge in ordered], dtype=np.float64),
        tuple(named),
        closing=closing,
    )


def plans(first, last, **kwargs):
    """PlanArrived events of rounds first..last, each at the offset of its round."""
    return [PlanArrived(plan(t, **kwargs), t) for t in range(first, last + 1)]


def end(round, follows=None):
    """The plan that ends the run."""
    return PlanArrived(plan(round, {}, names="", follows=follows), round)


def release(source, round, values, *, offset=None, instance=None, exact=False):
    """A release that arrives from `source`."""
    value = Release(np.array(values, dtype=np.float64))
    message = ReleaseMessage(
        "run-1", source, instance or INSTANCES[source], round, exact=exact, simulated=False, release=value
    )
    return ReleaseArrived(message, round if offset is None else offset)


def slot(round, features=(0.0, 0.0), label=0.0, *, present=True):
    """A slot of one record; by default its gradient is zero."""
    observations = Observations(
        np.array([features], dtype=np.float64), np.array([float(label)]), np.array([present])
    )
    return SlotClosed(round, Private(observations), ((0, round),))


def feed(node, *events):
    """Handle the events; return all effects."""
    return [effect for event in events for effect in node.handle(event)]


def started(node, *events, records=()):
    """Start the machine, feed the events, and return all effects."""
    return feed(node, Started(tuple(records)), *events)


def of(effects, kind):
    """The effects of one type."""
    return [effect for effect in effects if isinstance(effect, kind)]


def neighbours(round, b=(3.0, 0.0), c=(0.0, 6.0)):
    """The releases of b and c for a round."""
    return release("b", round, b), release("c", round, c)


def run_rounds(node, first, last):
    """Step the rounds first..last with neighbours at zero and a gradient that clips."""
    effects = []
    for t in range(first, last + 1):
        effects += feed(node, *neighbours(t, (0.0, 0.0), (0.0, 0.0)), slot(t, (1.0, 1.0), 5.0))
    return effects
