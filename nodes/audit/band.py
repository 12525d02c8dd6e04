"""Audits of `gaussian-bisr`, whose releases are only looked at rightly together: what later ones tell of one.

The statistic of several rounds is <C y, C(G - G')>, y the releases, on slots whose first differs as far as
the clip lets it: nothing tells more of which it was. In it the draws stand alone, so that it is normal with
mu = ||C(G - G')||/sigma.

The lattice is looked at over pairs of successive releases. The sampler's answers for one pair of slots are
played back for another, the second moved by whole steps of the gradients' grid: there must be an answer that
gives the same bits. Without the rounding of the band there is none where the first draws differ in parity.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from nodes.audit.bounds import mu_lower_bound
from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.mechanism import Sampler, Secret
from nodes.privacy.private import Private
from nodes.values import FloatArray, IntArray, Release

_MOST_ROUNDS = 16


def audit_rounds(mechanism: GaussianBisr) -> int:
    """Return how many rounds are looked at together: most of C's first column, 16 at most."""
    return min(_MOST_ROUNDS, len(mechanism.matrix.column))


def band_mu_bound(
    mechanism: GaussianBisr,
    draws: int,
    confidence: float,
    round: int = 1,
    drawn: Callable[[int], None] | None = None,
) -> float:
    """Return a lower bound on mu that `draws` runs on each of two neighbours prove; `drawn` as in `audit`."""
    row = np.zeros((draws, 1, mechanism.dimension))
    row[..., 0] = mechanism.theta
    first, second = (_statistics(mechanism, sign * row, round, drawn) for sign in (1.0, -1.0))
    return mu_lower_bound(first, second, confidence)


def _statistics(
    mechanism: GaussianBisr, first: FloatArray, round: int, drawn: Callable[[int], None] | None
) -> FloatArray:
    rounds = audit_rounds(mechanism)
    column = mechanism.matrix.column[:rounds]
    secret: Secret | None = None
    releases = np.empty((rounds, len(first)))
    for t in range(rounds):
        slot = first if t == 0 else np.zeros_like(first)
        made = mechanism.privatise(round + t, Private(slot), _as_it_is, secret)
        releases[t], secret = made.release[:, 0], made.secret
    if drawn is not None:
        drawn(len(first))
    decorrelated = [column[: t + 1][::-1] @ releases[: t + 1] for t in range(rounds)]
    statistics: FloatArray = column @ np.stack(decorrelated)
    return statistics


def band_lattice_holds(mechanism: GaussianBisr, pairs: int, seed: int) -> bool:
    """Whether every pair of successive releases of one pair of slots is a pair of any other's."""
    random = np.random.Generator(np.random.Philox(seed))
    return all(_alike(mechanism, random, 2 * pair + 1) for pair in range(pairs))


def _alike(mechanism: GaussianBisr, random: np.random.Generator, round: int) -> bool:
    shape = (min(mechanism.batch_size, 2), mechanism.dimension)
    slots, others = (mechanism.theta * random.uniform(-1, 1, (2, *shape)) for _ in range(2))
    tape = _Tape(mechanism.sampler)
    seen = _pair(mechanism, tape, slots, round)
    other = _pair(mechanism, _Tape(None, tape.answers), others, round)
    step = mechanism.grid.step / mechanism.batch_size
    moved = np.rint((seen[1] - other[1]) / step).astype(np.int64)
    last = tape.answers[1] + (moved << FINER)
    same = _pair(mechanism, _Tape(None, [tape.answers[0], last]), others, round)
    return tape.whole and all(one.tobytes() == two.tobytes() for one, two in zip(seen, same, strict=True))


def _pair(mechanism: GaussianBisr, tape: "_Tape", slots: FloatArray, round: int) -> tuple[Release, Release]:
    taped = replace(mechanism, sampler=cast("Sampler", tape))  # which is asked for nothing else
    made = taped.privatise(round, Private(slots[0]), _as_it_is)
    after = taped.privatise(round + 1, Private(slots[1]), _as_it_is, made.secret)
    return made.release, after.release


def _as_it_is(gradient: FloatArray) -> FloatArray:
    return gradient


class _Tape:
    """Records a sampler's answers, or, without one, gives those that it was made with."""

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
