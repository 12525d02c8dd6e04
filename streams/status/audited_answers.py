"""Audits the owners' answers in a collaboration, with as many draws as fit into a minute."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodes.audit.mechanism import audit_answers, lattice_holds
from nodes.privacy.query import QueryMechanism
from streams.mesh.collaboration import Collaboration
from streams.status.audited_mechanisms import MechanismAudit, affordable

_MOST, _WORK = 1_000_000, 8_000_000
"""Draws on each of two sets, and noisy integers: one of T answers has little epsilon, so it takes many."""
_LEAST = 100


class AnswerSubject(NamedTuple):
    """A mechanism, and the owners that have it."""

    owners: tuple[str, ...]
    mechanism: QueryMechanism


def answer_subjects(whole: Collaboration, owners: Iterable[str]) -> list[AnswerSubject]:
    """Return the distinct mechanisms of these owners, in order: the number of records changes no noise."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for name in owners:
        terms = whole.settings.owners[name]
        alike.setdefault((terms.mechanism, terms.epsilon, terms.delta), []).append(name)
    return [AnswerSubject(tuple(names), whole.mechanism(names[0])) for names in alike.values()]


def answer_draws(made: QueryMechanism) -> int:
    """Return the number of draws on each of two sets that takes about a minute."""
    return max(_LEAST, min(_MOST, _WORK // made.audited.draw_cost))


def audited_answers(
    made: QueryMechanism, draws: int, confidence: float, drawn: Callable[[int], None]
) -> MechanismAudit:
    """Audit a mechanism; `drawn` gets the number of new draws."""
    _, pairs = affordable(made.audited)
    lattice = lattice_holds(made.audited, pairs)
    return MechanismAudit(lattice, pairs, lowered=False, audit=audit_answers(made, draws, confidence, drawn))
