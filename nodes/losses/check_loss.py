"""Checks a loss on random records, for those who write one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nodes.losses.losses import Loss
from nodes.privacy.clipping import Norm, clip
from nodes.sparse import dense
from nodes.values import BoolArray, FloatArray, Observations
from topology.keyed import generator

# Random decisions and records to try a loss on.


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws decisions (d,) and records of `width` features, with labels from `labels` (None: normal)."""

    dimension: int
    width: int
    labels: Sequence[float] | None
    rng: np.random.Generator

    def decision(self, *leading: int) -> FloatArray:
        """Return normal decisions, shape (*leading, d)."""
        return self.rng.normal(size=(*leading, self.dimension))

    def records(self, *shape: int) -> Observations:
        """Return records of that shape, all present, with features of norm about 1."""
        features = self.rng.normal(size=(*shape, self.width)) / np.sqrt(self.width)
        labels = self.rng.normal(size=shape) if self.labels is None else self.rng.choice(self.labels, shape)
        return Observations(features, labels, np.ones(shape, dtype=np.bool_))


_STEP = 2.0**-20
_COORDINATES = 32
_RECORDS = 20


def wrong_slopes(loss: Loss, draw: Draws) -> Iterator[str]:
    """Yield the first coordinate of a gradient that is not between the slopes on its two sides.

    At a kink any number between the two is right.
    """
    for scale in (0.1, 1.0, 3.0):
        x, o = scale * draw.decision(), draw.records(_RECORDS)
        at, gradients = loss.value(x, o), dense(loss.gradients(x, o))
        chosen = draw.rng.permutation(draw.dimension)[:_COORDINATES]
        left_slopes, right_slopes = np.empty((len(chosen), _RECORDS)), np.empty((len(chosen), _RECORDS))
        for k, j in enumerate(chosen.tolist()):
            move = np.zeros_like(x)
            move[j] = _STEP
            left_slopes[k] = (at - loss.value(x - move, o)) / _STEP
            right_slopes[k] = (loss.value(x + move, o) - at) / _STEP
        wrong = ~_between(left_slopes, right_slopes, gradients[:, chosen].T, np.abs(at))
        if wrong.any():
            k, i = np.argwhere(wrong)[0].tolist()
            bounds = (
                "slopes to the left and to the right are "
                f"{left_slopes[k, i]:.6g} and {right_slopes[k, i]:.6g}"
            )
            coordinate = f"coordinate {int(chosen[k])} is {gradients[i, chosen[k]]:.6g}"
            yield f"the gradient's {coordinate} where the value's {bounds}"
            return


def _between(left: FloatArray, right: FloatArray, middle: FloatArray, values: FloatArray) -> BoolArray:
    steepest = np.maximum(np.abs(left), np.abs(right)).max(0)
    slack = 1e-5 * steepest + 16.0 * np.finfo(np.float64).eps * (1.0 + values) / _STEP
    inside: BoolArray = (np.minimum(left, right) - slack <= middle) & (
        middle <= np.maximum(left, right) + slack
    )
    return inside


def check_loss(
    loss: Loss,
    dimension: int,
    width: int | None = None,
    *,
    labels: Sequence[float] | None = None,
    gradient_bound: float = 1.0,
    norm: Norm = "l2",
    seed: int = 0,
) -> list[str]:
    """Return the problems of the loss, one line each; an empty list if none was found.

    Checks shapes (0, 1 and 3 records; leading axes) and dtypes; NaN and infinity, also at a decision of
    zeros, on features of zeros, and where the two are equal; gradients against finite differences; absent
    records; that a record's gradient does not depend on the records beside it; that arguments stay unchanged
    and repeated calls agree; the gradients after the mechanism's clip.

    A gradient's coordinate is right if it is between the difference quotients to the left and to the right,
    2^-20 away, up to rounding: at a kink any number between the two slopes is right. At most 32 coordinates
    are checked, at 20 random records and three decisions (`nodes.losses.check_loss`).

    Parameters
    ----------
    loss : Loss
        Only its values and gradients are used.
    dimension, width : int
        d, the length of a decision, and p, the number of a record's features; p = d unless given.
    labels : sequence of float, optional
        The labels to draw from; without them labels are normal.
    gradient_bound, norm
        The clip.
    seed : int
        The seed of the random records.
    """
    draw = Draws(dimension, width or dimension, labels, generator("check loss", seed))
    faults = list(dict.fromkeys(_shapes(loss, draw)))
    if faults:
        return faults  # the other checks need the right shapes
    try:
        for look in (_finite, wrong_slopes, _apart, _absent, _steady):
            faults += look(loss, draw)
        faults += _clipped(loss, draw, gradient_bound, norm)
    except (Exception, SystemExit) as error:  # noqa: BLE001 # a user's code may raise anything; the records are random
        faults.append(f"raised {type(error).__name__}: {error}")
    return list(dict.fromkeys(faults))


def _shapes(loss: Loss, draw: Draws) -> Iterator[str]:
    for leading in ((), (2,)):
        for n in (0, 1, 3):
            place = f"{n} records{' and two decisions' if leading else ''}"
            arguments = (draw.decision(*leading), draw.records(*leading, n))
            yield from _shape("value", loss.value, arguments, (*leading, n), place)
            yield from _shape("gradients", loss.gradients, arguments, (*leading, n, draw.dimension), place)


def _shape(
    name: str,
    of: Callable[[FloatArray, Observations], object],
    asked: tuple[FloatArray, Observations],
    expected: tuple[int, ...],
    where: str,
) -> Iterator[str]:
    try:
        answer = of(*asked)
    except (Exception, SystemExit) as error:  # noqa: BLE001 # a user's code may raise anything; the records are random
        yield f"{name} raised {type(error).__name__} for {where}: {error}"
        return
    if not isinstance(answer, np.ndarray):
        yield f"{name} gives a {type(answer).__name__}: must be a numpy array"
    elif answer.shape != expected:
        yield f"{name} gives the shape {answer.shape} for {where}: must be {expected}"
    elif not np.can_cast(answer.dtype, np.float64):
        yield f"{name} gives the dtype {answer.dtype}: must be float64"


def _finite(loss: Loss, draw: Draws) -> Iterator[str]:
    ordinary, o = draw.decision(), draw.records(3)
    features = dense(o.features)
    points = {
        "at a random decision": (ordinary, o),
        "at a decision of zeros": (np.zeros_like(ordinary), o),
        "on features of zeros": (ordinary, o._replace(features=np.zeros_like(features))),
    }
    if draw.width == draw.dimension:
        points["where features and decision are equal"] = (features[0], o)
    for place, (x, records) in points.items():
        with np.errstate(all="ignore"):
            answers = {"value": loss.value(x, records), "gradients": dense(loss.gradients(x, records))}
        for name, answer in answers.items():
            if not np.isfinite(answer).all():
                yield f"{name} is not finite {place}"


def _apart(loss: Loss, draw: Draws) -> Iterator[str]:
    x, o = draw.decision(), draw.records(3)
    features = dense(o.features)
    for name, of in _both(loss):
        batch = of(x, o)
        singles = [
            of(x, Observations(features[k : k + 1], o.labels[k : k + 1], o.present[k : k + 1]))[0]
            for k in range(3)
        ]
        if not np.allclose(batch, singles, rtol=1e-9, atol=1e-12):
            yield f"{name} of a record depends on the records beside it: must depend on that record alone"


def _absent(loss: Loss, draw: Draws) -> Iterator[str]:
    x, o = draw.decision(), draw.records(2)
    present = np.array([False, True])
    empty = Observations(dense(o.features) * present[:, None], o.labels * present, present)
    for name, of in _both(loss):
        if of(x, empty)[0].any():
            yield f"{name} of an absent record is not 0: must be where `present` is false"


def _steady(loss: Loss, draw: Draws) -> Iterator[str]:
    x, o = draw.decision(), draw.records(3)
    arguments = (x, dense(o.features), o.labels, o.present)
    before = [part.copy() for part in arguments]
    for name, of in _both(loss):
        first = of(x, o)
        if any(not np.array_equal(part, copy) for part, copy in zip(arguments, before, strict=True)):
            yield f"{name} changes its arguments"
            return
        if not np.array_equal(first, of(x, o)):
            yield f"{name} gives another answer when called again: must depend on its arguments alone"


def _both(loss: Loss) -> Iterator[tuple[str, Callable[[FloatArray, Observations], FloatArray]]]:
    yield "value", loss.value
    yield "gradients", lambda decision, observations: dense(loss.gradients(decision, observations))


def _clipped(loss: Loss, draw: Draws, bound: float, norm: Norm) -> Iterator[str]:
    rows, _, broken = clip(dense(loss.gradients(draw.decision(), draw.records(20))), bound, norm)
    clipped, changed, _ = clip(rows, bound * (1 + 1e-9), norm)
    if broken or changed or not np.array_equal(rows, clipped):
        yield f"gradients do not stay within {bound:g} in {norm} after the mechanism's clip"
