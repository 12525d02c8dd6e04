"""Audits mechanisms of a mesh and answers of owners, with as many draws as fit into a minute."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodes.audit.mechanism import Audit, audit, audit_answers, audit_rounds, lattice_holds
from nodes.privacy.mechanism import Audited
from nodes.privacy.query import QueryMechanism
from streams.mesh.collaboration import Collaboration
from streams.mesh.mesh import Mesh
from streams.mesh.settings.privacy import growing_epsilon

# Audits the mechanisms of a mesh, with as many draws as fit into a minute.

DRAWS = 40_000
"""Draws on each slot, if they are cheap."""
PAIRS = 100
"""Pairs of slots that the lattice test compares, if they are cheap."""
_WORK = 2_000_000  # noisy integers on each slot: about a minute in all
_LEAST_DRAWS, _LEAST_PAIRS = 100, 10


class Subject(NamedTuple):
    """A mechanism (None: nothing protects) and the nodes that have it.

    `round`: the audited round, if a growing epsilon makes rounds differ: the last one, with the least noise.
    """

    nodes: tuple[str, ...]
    mechanism: Audited | None
    round: int | None = None


class MechanismAudit(NamedTuple):
    """An audit of one mechanism. `pairs`: the pairs of slots that the lattice test compared.

    `lowered`: whether the dimension allowed fewer draws than usual.
    """

    lattice: bool
    pairs: int
    lowered: bool
    audit: Audit

    @property
    def sound(self) -> bool:
        """Whether nothing was refuted."""
        return self.lattice and not self.audit.refuted


def subjects(mesh: Mesh, nodes: Iterable[str]) -> list[Subject]:
    """Return the distinct mechanisms of these nodes, in order."""
    alike: dict[str, list[str]] = {}
    for name in nodes:
        alike.setdefault(mesh.node(name).privacy.model_dump_json(), []).append(name)
    return [_subject(mesh, tuple(names)) for names in alike.values()]


def affordable(mechanism: Audited) -> tuple[int, int]:
    """Return the numbers of draws on each slot, and of pairs of slots, that take about a minute."""
    cost = mechanism.draw_cost * audit_rounds(mechanism)
    draws = max(_LEAST_DRAWS, min(DRAWS, _WORK // cost))
    return draws, max(_LEAST_PAIRS, min(PAIRS, _WORK // (10 * cost)))


def audited(
    mechanism: Audited, draws: int | None, confidence: float, drawn: Callable[[int], None]
) -> MechanismAudit:
    """Audit a mechanism; `draws` None: as many as are cheap. `drawn` gets the number of new draws."""
    most, pairs = affordable(mechanism)
    lattice = lattice_holds(mechanism, pairs)
    result = audit(mechanism, draws or most, confidence, drawn=drawn)
    return MechanismAudit(lattice, pairs, draws is None and most < DRAWS, result)


def _subject(mesh: Mesh, nodes: tuple[str, ...]) -> Subject:
    node = mesh.node(nodes[0])
    growing = growing_epsilon(node.privacy.epsilon, mesh.settings.slots.size)
    return Subject(nodes, node.mechanism.audited, growing.rounds if growing else None)


# Audits the owners' answers in a collaboration, with as many draws as fit into a minute.

_MOST, _ANSWER_WORK = 1_000_000, 8_000_000
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
    return max(_LEAST, min(_MOST, _ANSWER_WORK // made.audited.draw_cost))


def audited_answers(
    made: QueryMechanism, draws: int, confidence: float, drawn: Callable[[int], None]
) -> MechanismAudit:
    """Audit a mechanism; `drawn` gets the number of new draws."""
    _, pairs = affordable(made.audited)
    lattice = lattice_holds(made.audited, pairs)
    return MechanismAudit(lattice, pairs, lowered=False, audit=audit_answers(made, draws, confidence, drawn))
