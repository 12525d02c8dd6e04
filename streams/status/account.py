"""A node's account, from the number of rounds it has charged and its public settings."""

import math
from typing import Literal, NamedTuple

from nodes.accounting.guarantee import Ledger
from nodes.decimals import rounded_up
from streams.ledger import Promise, Reuse
from streams.mesh.file import MeshFile


class ChargeCount(NamedTuple):
    """The last round that a node has stepped, and the number of rounds it has charged.

    `exactly`: the numbers come from the node's own journal. Otherwise `charged` counts all plans that name
    the node, up to round `planned`: it may have missed some, or not have reached them yet. `priced`: as far
    as known, they were charged at today's settings. `whole`: no earlier life of the run may have charged
    more. `instance`: the journal's own id; "" by plans.
    """

    stepped: int
    charged: int
    exactly: bool
    priced: bool = True
    planned: int = 0
    whole: bool = True
    instance: str = ""

    @property
    def reached(self) -> int:
        """The last round that may have been charged."""
        return max(self.stepped, self.planned)


class PrivacyAccount(NamedTuple):
    """The privacy that a node has spent, and the rest. None: nothing is protected, or there is no budget.

    `epsilon`, `delta`: those of a record (event level; 0 before the first charge). `spent`, `left`: of the
    whole stream, at `stream_delta`. `rounds_left`: the number of rounds in which it may still learn;
    `rounds_unused`: the number in which it might have, once it learns no more (by plans: at least).
    `guarantee`: over all that is known. `at_most`: an earlier life of the run may have charged more, so that
    less is left.
    """

    node: str
    source: Literal["journal", "plans"]
    stepped: int
    charged: int
    protected: bool
    epsilon: float | None
    delta: float
    spent: float | None
    stream_delta: float
    composition: str | None
    budget: float | None
    left: float | None
    last_learning_round: int | None
    rounds_left: int | None
    rounds_unused: int | None
    relaying: bool
    adjacency: dict[str, str]
    guarantee: str
    at_most: bool = False


ADJACENCY = {
    "epsilon": "event: one record of the node",
    "spent": "stream: all records of the node",
}


def account(
    file: MeshFile, node: str, charge_count: ChargeCount, known: Reuse | None = None
) -> PrivacyAccount:
    """Return the account of a node of the mesh; `known`: of all spending on its data."""
    ledger, promised = file.resolved.node(node).ledger, file.resolved.node(node).guarantee
    charged = charged_by(ledger, charge_count)
    spent = ledger.spent(charged, charge_count.reached)
    left = ledger.left(charged, charge_count.reached)
    return PrivacyAccount(
        node=node,
        source="journal" if charge_count.exactly else "plans",
        stepped=charge_count.stepped,
        charged=charged,
        protected=promised.protects and charge_count.priced,
        epsilon=None
        if ledger.epsilon is None or not charge_count.priced
        else rounded_up(ledger.epsilon)
        if charged
        else 0.0,
        delta=promised.delta,
        spent=None if math.isinf(spent) or not charge_count.priced else spent,
        stream_delta=ledger.delta,
        composition=None if ledger.composition is None else ledger.composition.words,
        budget=None if ledger.budget is None else -rounded_up(-ledger.budget),
        left=None if math.isinf(left) else left,
        last_learning_round=ledger.last_learning_round,
        rounds_left=_rounds_left(ledger, charge_count.stepped, charged),
        rounds_unused=unused(ledger, charge_count),
        relaying=relays(ledger, charge_count),
        adjacency=ADJACENCY,
        guarantee=Promise(node, promised, known).sentence,
        at_most=not charge_count.whole,
    )


def charged_by(ledger: Ledger, charge_count: ChargeCount) -> int:
    """Return the number of charged rounds at most: a node charges no round after its last learning round."""
    last = ledger.last_learning_round
    return charge_count.charged if charge_count.exactly or last is None else min(charge_count.charged, last)


def relays(ledger: Ledger, charge_count: ChargeCount) -> bool:
    """Return whether the node learns no more. Plans ahead of it end no learning."""
    charged = (
        charge_count.charged if charge_count.exactly else min(charge_count.charged, charge_count.stepped)
    )
    return not ledger.may_learn(charge_count.stepped + 1, charged)


def unused(ledger: Ledger, charge_count: ChargeCount) -> int | None:
    """Return how many rounds of the budget were left when the learning ended; None before its end.

    The last learning round is a round number: a node that was away stops in it like all others.
    """
    last = ledger.last_learning_round
    if last is None or not relays(ledger, charge_count):
        return None
    return max(0, last - charged_by(ledger, charge_count))


def _rounds_left(ledger: Ledger, stepped: int, charged: int) -> int | None:
    last = ledger.last_learning_round
    return None if last is None else max(0, last - max(stepped, charged))
