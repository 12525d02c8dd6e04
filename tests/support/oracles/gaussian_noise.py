"""Samplers of Gaussian noise with one fault each, none at all, and the look at a sample's scale."""

import math

from scipy import stats

from nodes.privacy.exact import ExactSampler
from topology.keyed import generator


class Silent:
    """No noise, and a memory of what was to be noised."""

    simulated = True

    def gaussian(self, round, values, scale):
        self.values, self.scale = values, scale
        return values


class Scaled(ExactSampler):
    """The fault: noise of `factor` times the scale."""

    factor = 1.0

    def gaussian(self, round, values, scale):
        return super().gaussian(round, values, scale * self.factor)


class Little(Scaled):
    factor = 0.8


class Much(Scaled):
    factor = 1.25


class Shifted(ExactSampler):
    """The fault: noise with a mean of a tenth of its scale."""

    part = 10

    def gaussian(self, round, values, scale):
        return super().gaussian(round, values, scale) + math.ceil(scale / self.part)


class Floats(ExactSampler):
    """The fault: numpy's noise, added in floats."""

    def gaussian(self, round, values, scale):
        return values + scale * generator("fault", round).normal(size=values.shape)


def has_scale(drawn, scale):
    """Whether the sample is normal with that deviation, by its Kolmogorov-Smirnov distance.

    The right scale fails once in 10^6 runs. 0.8x and 1.25x are 0.054 away, Laplace noise 0.06: with 6,000
    values five deviations of what is seen above the limit, with 10,000 twice as far above it.
    """
    limit = 2.7 / math.sqrt(drawn.size)
    return bool(stats.kstest(drawn.ravel(), stats.norm(scale=scale).cdf).statistic < limit)
