"""The lattice test of correlated noise, over pairs of successive releases.

The sampler's answers for one pair of slots are played back for another pair, the second answer moved by whole
steps of the gradients' grid: one of these answers must give the same bits. Without the rounding of the band
there is none if the first draws differ in parity.
"""

from typing import cast

import numpy as np

from nodes.privacy.bisr import FINER
from nodes.privacy.mechanism import Audited, Band, Sampler
from nodes.privacy.private import Private
from nodes.values import FloatArray, IntArray, Release


def band_lattice_holds(mechanism: Audited, band: Band, pairs: int, seed: int) -> bool:
    """Return whether each pair of releases of one pair of slots is also one of any other pair of slots."""
    random = np.random.Generator(np.random.Philox(seed))
    return all(_alike(mechanism, band, random, 2 * pair + 1) for pair in range(pairs))


def _alike(mechanism: Audited, band: Band, random: np.random.Generator, round: int) -> bool:
    shape = (min(mechanism.batch_size, 2), mechanism.dimension)
    slots, other_slots = (mechanism.theta * random.uniform(-1, 1, (2, *shape)) for _ in range(2))
    tape = _Tape(mechanism.sampler)
    pair = _pair(mechanism, tape, slots, round)
    other_pair = _pair(mechanism, _Tape(None, tape.answers), other_slots, round)
    difference = np.rint((pair[1] - other_pair[1]) / band.step).astype(np.int64)
    last = tape.answers[1] + (difference << FINER)
    answered_pair = _pair(mechanism, _Tape(None, [tape.answers[0], last]), other_slots, round)
    return tape.whole and all(
        first.tobytes() == two.tobytes() for first, two in zip(pair, answered_pair, strict=True)
    )


def _pair(mechanism: Audited, tape: "_Tape", slots: FloatArray, round: int) -> tuple[Release, Release]:
    taped = mechanism.with_sampler(cast("Sampler", tape))  # only its `gaussian` is called
    privatised = taped.privatise(round, Private(slots[0]), _as_it_is)
    after = taped.privatise(round + 1, Private(slots[1]), _as_it_is, privatised.secret)
    return privatised.release, after.release


def _as_it_is(gradient: FloatArray) -> FloatArray:
    return gradient


class _Tape:
    """Records a sampler's answers; without a sampler, plays back the given answers."""

    simulated = False

    def __init__(self, sampler: Sampler | None, answers: list[IntArray] | None = None) -> None:
        self.answers = list(answers or ())
        self.whole = True
        self._sampler = sampler
        self._played = 0

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        if self._sampler is not None:
            noisy = self._sampler.gaussian(round, values, scale)
            self.whole &= noisy.dtype == np.int64
            self.answers.append(noisy.astype(np.int64))
        self._played += 1
        return self.answers[self._played - 1]
