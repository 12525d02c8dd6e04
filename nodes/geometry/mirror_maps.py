"""Mirror maps phi: the geometry of a step. D(x, z) = phi(x) - phi(z) - <grad phi(z), x - z>.

Arrays are float64 with contiguous rows, shape (d,) or (..., d), as in `nodes.geometry.constraints`.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from nodes.checks import finite_array
from nodes.values import FloatArray


class MirrorMap(Protocol):
    """A strongly convex generator: D(x, z) >= modulus/2 ||x - z||^2 in the map's own norm."""

    @property
    def name(self) -> str:
        """The name in errors and in the mesh file."""

    @property
    def modulus(self) -> float:
        """omega, the strong-convexity modulus."""

    def value(self, x: FloatArray) -> FloatArray:
        """Return phi(x), shape (...)."""

    def divergence(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return D(x, z), shape (...)."""


@dataclass(frozen=True, slots=True)
class Euclidean:
    """phi(x) = 1/2 x'x; omega = 1 in L2."""

    name: ClassVar[str] = "euclidean"

    @property
    def modulus(self) -> float:
        """The modulus omega = 1, in L2."""
        return 1.0

    def value(self, x: FloatArray) -> FloatArray:
        """Return 1/2 x'x, shape (...)."""
        half: FloatArray = 0.5 * (x * x).sum(-1)
        return half

    def divergence(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return 1/2 ||x - z||^2, shape (...)."""
        return self.value(x - z)


@dataclass(frozen=True, slots=True, eq=False)
class Mahalanobis:
    """phi(x) = 1/2 x'Qx; omega = lambda_min(Q) in L2.

    `q` is the diagonal of Q, shape (d,), or Q itself, shape (d, d); a diagonal Q is stored as its diagonal.
    Raises ValueError unless Q is finite, symmetric and positive definite.
    """

    q: FloatArray

    def __post_init__(self) -> None:
        q = finite_array("q", self.q)
        if q.size == 0 or q.ndim not in {1, 2} or q.shape != (q.shape[0],) * q.ndim:
            raise ValueError(f"q has shape {q.shape}: must be (d,) or (d, d), d >= 1")
        if q.ndim == 2 and not np.array_equal(q, q.T):
            i, j = np.argwhere(q != q.T)[0].tolist()
            raise ValueError(f"q[{i}][{j}] is {q[i, j]}, q[{j}][{i}] is {q[j, i]}: q must be symmetric")
        if q.ndim == 2 and np.count_nonzero(q - np.diag(np.diagonal(q))) == 0:
            q = finite_array("q", np.diagonal(q))
        object.__setattr__(self, "q", q)
        rounding = 0.0 if self.diagonal else q.size * np.finfo(np.float64).eps * float(np.abs(q).max())
        if not self.modulus > rounding:
            raise ValueError(f"q has the smallest eigenvalue {self.modulus}: must be positive definite")

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return len(self.q)

    @property
    def diagonal(self) -> bool:
        """Whether Q is diagonal; if so, `q` has shape (d,)."""
        return self.q.ndim == 1

    @property
    def name(self) -> str:
        """The name in errors, with the form of q."""
        return "mahalanobis with a diagonal q" if self.diagonal else "mahalanobis with a full q"

    @property
    def modulus(self) -> float:
        """The modulus omega = lambda_min(Q), in L2."""
        eigenvalues = self.q if self.diagonal else np.linalg.eigvalsh(self.q)
        return float(eigenvalues.min())

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return Qx, shape (..., d), without BLAS: the same bits for one row and for many."""
        product: FloatArray = self.q * x if self.diagonal else (self.q * x[..., None, :]).sum(-1)
        return product

    def value(self, x: FloatArray) -> FloatArray:
        """Return 1/2 x'Qx, shape (...)."""
        half: FloatArray = 0.5 * (x * self.gradient(x)).sum(-1)
        return half

    def divergence(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return 1/2 (x - z)'Q(x - z), shape (...)."""
        return self.value(x - z)


@dataclass(frozen=True, slots=True)
class Entropy:
    """phi(x) = sum x log x on x >= 0, with 0 log 0 = 0; omega = 1 in L1 on the simplex (Pinsker)."""

    name: ClassVar[str] = "entropy"

    @property
    def modulus(self) -> float:
        """The modulus omega = 1, in L1 on the simplex."""
        return 1.0

    def value(self, x: FloatArray) -> FloatArray:
        """Return sum x log x, shape (...), for x >= 0."""
        total: FloatArray = (x * np.log(np.where(x > 0, x, 1.0))).sum(-1)
        return total

    def divergence(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return sum x log(x/z) - x + z, shape (...), for x >= 0 and z > 0."""
        total: FloatArray = (x * np.log(np.where(x > 0, x, z) / z) - x + z).sum(-1)
        return total
