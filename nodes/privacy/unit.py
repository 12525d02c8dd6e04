"""The privacy unit: a person, or whatever has many records, and the rounds that its records take part in.

A unit has seats: the rounds r with (r + number) mod b = 0, where `number` is a hash of the unit's name. In a
seat one record of the unit counts: its earliest by (timestamp, partition, offset) of all whose unit can be
read, whether the rest of the record can be read or not. In other rounds none does. What does not count has a
zero gradient, with slots by count, and never enters a slot, with slots by time.

Guarantees
----------
Adjacency: the records of one unit are replaced. Their units, their places and their times stay.

*Seats.* Of any T rounds in a row a unit has at most ceil(T/b), each exactly b after the one before. They
follow from the unit's name and the round alone: there is no table, and nothing is lost in a crash, a restore
or a new life. Units whose names have one number are one larger unit, for which all of this holds.

*One round.* Whether a record of another unit counts, and in which round, is the same for neighbours: it
depends on that unit's own places, times and name alone. With slots by time, where h is the limit of a slot,
the h earliest of one record a unit enter. Neighbours have the same units, places and times, so the same
records enter. So the sum of a round moves by as much as for one record replaced, in at most k rounds that
are b apart, and in no other round.

*Composition.* The k rounds are known before the first of them, and each moves by a known bound. So releases
that depend on earlier ones compose: pure epsilons add up (Dwork, Roth 2014, corollary 3.15), Gaussian noise
has sqrt(k) times the sensitivity (Dong, Roth, Su 2022), and correlated noise that of
`nodes.privacy.bisr_coefficients.BandMatrix.unit_norm`. Where the epsilons of rounds grow, the k last rounds
that are b apart are the dearest.

*Whose a record is.* A record of another unit changes two units, so that is protected at twice the epsilon.

| case | what happens |
|---|---|
| a record whose unit is missing, empty, null or no single value | it never counts, and uses no seat |
| the earliest record of a seat is unreadable otherwise | it has the seat: a later one does not count |
| 7, 7.0 and "7" | one unit, as words are compared elsewhere |
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from nodes.values import BoolArray


def unit_number(word: str) -> int:
    """Return the 64-bit number of a unit's name, the same in every process and run."""
    return int.from_bytes(blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest())


def has_seat(number: int, round: int, apart: int) -> bool:
    """Return whether the unit of that number has a seat in a round."""
    return (round + number) % apart == 0


def counted(
    round: int, apart: int, numbers: Sequence[int | None], order: Sequence[tuple[float, int, int]]
) -> BoolArray:
    """Return which records of a slot count, (n,): the earliest of each unit that has a seat in the round.

    `numbers`: those of the records' units; None: unreadable. `order`: (timestamp, partition, offset) of each.
    """
    earliest: dict[int, int] = {}
    for k, number in enumerate(numbers):
        if number is not None and has_seat(number, round, apart):
            first = earliest.get(number)
            if first is None or order[k] < order[first]:
                earliest[number] = k
    counts = np.zeros(len(numbers), dtype=np.bool_)
    counts[list(earliest.values())] = True
    return counts
