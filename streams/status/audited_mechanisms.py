"""Audits the mechanisms of a mesh, with as many draws as fit into a minute."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodes.audit.mechanism import Audit, audit, audit_rounds, lattice_holds
from nodes.privacy.mechanism import Audited
from streams.mesh.mesh import Mesh
from streams.mesh.settings.privacy import growing_epsilon

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
