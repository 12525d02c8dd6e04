"""`none`: no noise, so releases show the records. For comparison, and for public data.

Guarantees
----------
None. Gradients are clipped as elsewhere, so that runs with and without noise differ only in the noise.

| case | what happens |
|---|---|
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| n < h observations | the sum is divided by h |
"""

from dataclasses import dataclass, field

import numpy as np

from nodes.accounting.releases import DeltaBudget
from nodes.checks import at_least_one, positive
from nodes.privacy.clipping import Norm, clip
from nodes.privacy.features import RowFeatures
from nodes.privacy.mechanism import Privatised, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.sampled import checked
from nodes.sparse import Rows, SparseRows, dense
from nodes.values import FloatArray, Release


@dataclass(frozen=True, slots=True, eq=False)
class Unprotected:
    """The mean of a slot's gradients (..., n, d), each clipped to `theta` in `norm`, over `batch_size`.

    With `features` it is that of what rows (..., n, width) add, `dimension` their length. Raises
    ValueError for settings out of range.
    """

    theta: float
    norm: Norm
    batch_size: int
    dimension: int
    features: RowFeatures | None = None
    name: str = field(default="none", init=False)
    epsilon: None = field(default=None, init=False)
    delta: float = field(default=0.0, init=False)
    simulated: bool = field(default=False, init=False)
    release_slack: float = field(default=0.0, init=False)
    band: None = field(default=None, init=False)
    audited: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        positive("theta", self.theta)
        at_least_one("batch_size", self.batch_size)
        at_least_one("dimension", self.dimension)

    def composition(self, budget: DeltaBudget | None) -> None:
        """Return None."""

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # none in any round
        """Return 0."""
        return 0.0

    def privatise(
        self,
        round: int,  # noqa: ARG002 # part of the protocol
        gradients: Private[Rows],
        update: Update,
        secret: Secret | None = None,  # noqa: ARG002
    ) -> Privatised:
        """Return update(sum of clipped gradients/h), without noise."""
        width = self.dimension if self.features is None else self.features.width
        rows = checked(opened(gradients), self.batch_size, width)
        total, clipped, broken = self._sum(rows)
        return Privatised(Release(update(total / self.batch_size)), Private(clipped), Private(broken))

    def _sum(self, rows: Rows) -> tuple[FloatArray, int, int]:
        if self.features is not None:
            points, clipped, broken = self.features.summed(dense(rows))
            return np.multiply(points, self.features.grid.step, dtype=np.float64), clipped, broken
        if isinstance(rows, SparseRows):
            clipped_rows, clipped, broken = clip(rows, self.theta, self.norm)
            return clipped_rows.summed(clipped_rows.values), clipped, broken
        bounded, clipped, broken = clip(rows, self.theta, self.norm)
        return np.add.reduce(bounded, -2), clipped, broken
