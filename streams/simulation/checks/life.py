"""What a check knows of one process of a node: what its journal says, and what it has reported since."""

from dataclasses import dataclass, field

import numpy as np

from nodes.machine.events import Decided, Foreseen
from nodes.machine.journal import DataPosition, GivenUp, JournalRecord
from nodes.machine.slots import Place
from nodes.privacy.mechanism import Secret
from nodes.regret import LocalRegret
from nodes.values import Average, FloatArray, Release


@dataclass(slots=True)
class Life:
    """One process.

    `own`: its releases by round; `lost`: what it has given up and not corrected. `gradients`: of each step,
    with its decision, counted again; `scored`: those of them that `regret` is made of.
    """

    instance: str
    own: dict[int, Release] = field(default_factory=dict)
    lost: dict[tuple[int, str], GivenUp] = field(default_factory=dict)
    charged: int = 0
    secret: Secret | None = None
    position: DataPosition | None = ()
    average: Average | None = None
    began: bool = False
    decided: Decided | None = None
    foreseen: Foreseen | None = None
    places: tuple[Place, ...] = ()
    gradients: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    scored: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    regret: LocalRegret | None = None

    @classmethod
    def of(cls, instance: str, records: tuple[JournalRecord, ...], secret: Secret | None) -> "Life":
        """Return the life that a journal tells of."""
        life = cls(instance)
        for record in records:
            life.remember(record, secret)
        return life

    def remember(self, record: JournalRecord, secret: Secret | None) -> None:
        """Take the next record."""
        if self.began and record.stepped != max(self.own, default=0):
            self.lost.clear()  # it was away, and has joined again
        self.began = True
        self.own[record.round] = record.release
        self.lost.update({(record.stepped, lost.source): lost for lost in record.given_up})
        for corrected in record.corrected:
            self.lost.pop(corrected, None)
        self.charged, self.secret = record.charged, secret
        self.position, self.average = record.data_position, record.average


def close(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two arrays of public values are equal up to rounding."""
    if one.tobytes() == other.tobytes():
        return True
    return bool((np.abs(one - other) <= 1e-9 * (1 + np.abs(other))).all())
