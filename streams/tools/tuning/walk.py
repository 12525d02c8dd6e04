"""The search of `tune`: walks to better settings by factors of four and two until no neighbour is better."""

from collections.abc import Callable, Iterator

from streams.tools.tuning.trials import Setting

STRIDES = (4, 2)
"""The factors, in order."""
BETTER = 0.98
"""A loss counts as less below this share: it is flat in the clip while nearly all gradients are clipped."""
MOST = 80
"""The largest number of trials."""


def walk(
    start: Setting,
    loss: Callable[[Setting], float],
    *,
    sizes: bool,
    report: Callable[[int], None],
    tilts: bool = False,
) -> dict[Setting, float]:
    """Return the losses of all settings tried, the best among them.

    Tries the neighbours of the best so far: clip, step, (with `tilts`) the gains' tilt and (with `sizes`)
    slot size, each multiplied or divided by the stride; the two that keep clip times step; and the two that
    keep step over size, as larger slots are fewer. `report` takes the number of trials done.
    """
    tried: dict[Setting, float] = {}

    def attempt(setting: Setting) -> None:
        if setting not in tried and len(tried) < MOST:
            tried[setting] = loss(setting)
            report(len(tried))

    attempt(start)
    for stride in STRIDES:
        while True:
            middle = _least(tried)
            for setting in _neighbours(middle, stride, sizes=sizes, tilts=tilts):
                attempt(setting)
            if not tried[_least(tried)] < BETTER * tried[middle]:
                break
    return tried


def best(tried: dict[Setting, float]) -> Setting:
    """Return the setting to propose: the one with the largest clip within 2 % of the least loss."""
    near = [setting for setting, loss in tried.items() if BETTER * loss <= tried[_least(tried)]]
    return max(near, key=lambda setting: (setting.gradient_bound, -tried[setting]))


def _least(tried: dict[Setting, float]) -> Setting:
    return min(tried, key=tried.__getitem__)


def _neighbours(middle: Setting, stride: int, *, sizes: bool, tilts: bool) -> Iterator[Setting]:
    bound, step, size, tilt = middle.gradient_bound, middle.step, middle.size, middle.tilt
    yield Setting(bound, step * stride, size, tilt)
    yield Setting(bound, step / stride, size, tilt)
    yield Setting(bound / stride, step * stride, size, tilt)
    yield Setting(bound * stride, step / stride, size, tilt)
    yield Setting(bound / stride, step, size, tilt)
    yield Setting(bound * stride, step, size, tilt)
    if tilts:
        yield Setting(bound, step, size, tilt * stride)
        yield Setting(bound, step, size, tilt / stride)
    if sizes:
        yield Setting(bound, step, size * stride, tilt)
        yield Setting(bound, step * stride, size * stride, tilt)
        if size >= stride:
            yield Setting(bound, step, size // stride, tilt)
            yield Setting(bound, step / stride, size // stride, tilt)
