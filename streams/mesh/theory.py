"""Evaluates bounds on the regret of a mesh from its settings."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from nodes.algorithms import SparseDola
from nodes.bounds import (
    Geometry,
    LiTheorem5,
    Network,
    convex,
    curvature,
    geometry,
    left_in_all,
    li_lemma_3,
    of_any_decisions,
    smooth_apart,
    with_noise_on_gradients,
    with_noise_on_parameters,
    zhou_li_lemma_2,
    zhou_li_theorem_2,
)
from nodes.losses.losses import Loss
from streams.mesh.algorithm import step_size
from streams.mesh.mesh import Mesh, MeshNode
from topology.schedules import CycleSchedule, Schedule, SwitchingSchedule, least_weight, mixing_rate, window

# Properties of the losses of all nodes of a mesh.


@dataclass(frozen=True, slots=True)
class LossFacts:
    """The properties of the losses in a mesh. `losses` maps the text of each distinct loss to the loss.

    The value of a user's own loss is None, as nothing is known of it: loading it would run its code.
    """

    losses: Mapping[str, Loss | None]

    @classmethod
    def of(cls, mesh: Mesh) -> "LossFacts":
        """Return the facts about the losses of a mesh's nodes."""
        settings = mesh.settings
        nodes_by_loss = {str(settings.loss_of(name)): name for name in reversed(settings.nodes)}
        return cls({words: _plain(mesh, name) for words, name in reversed(nodes_by_loss.items())})

    @property
    def convex(self) -> bool | None:
        """Whether all losses are convex; None if this is unknown for one of them."""
        answers = {convex(loss) for loss in self.losses.values()}
        return None if None in answers else all(answers)

    @property
    def curvature(self) -> float | None:
        """The largest curvature; None if a loss has none, or if it is unknown."""
        curvatures = [curvature(loss) for loss in self.losses.values()]
        finite = [value for value in curvatures if value is not None]
        return max(finite) if len(finite) == len(curvatures) else None

    @property
    def smooth_apart(self) -> bool:
        """Whether all gradients have the Lipschitz constant 1 away from the sensors."""
        return all(smooth_apart(loss) for loss in self.losses.values())

    def first(self, fits: Callable[[Loss | None], object]) -> str:
        """Return the name of the first loss for which `fits` is true; if there is none, of the first loss."""
        names = (name for name, loss in self.losses.items() if fits(loss))
        return next(names, next(iter(self.losses)))


def _plain(mesh: Mesh, node: str) -> Loss | None:
    return None if mesh.settings.loss_of(node).own is not None else mesh.node(node).loss


class NoBound(Exception):
    """There is no bound; the text names the property that is unknown."""


class Mixes(NamedTuple):
    """How well a schedule mixes, as far as it is known.

    The edges of any `window` consecutive rounds connect all nodes. Mixing over these rounds leaves at most
    the fraction `rate` of the disagreement between nodes. `least` is the smallest positive weight. `lazy`
    tells whether every node has a positive weight on itself in every round.
    """

    window: int
    rate: float
    least: float
    lazy: bool


@dataclass(frozen=True)
class Theory:
    """Evaluates the theorems' bounds on a mesh's regret after `rounds` rounds. All nodes learn in each round.

    `longest` is a bound on the L2 norm of a record's features, or None if no bound is known.
    """

    mesh: Mesh
    rounds: int
    mixes: Mixes
    longest: float | None = None
    _groups: list[tuple[MeshNode, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = self.mesh.settings.nodes
        counts = Counter(self.mesh.node(name).privacy for name in names)
        first = {self.mesh.node(name).privacy: name for name in reversed(names)}
        nodes = [(self.mesh.node(first[privacy]), count) for privacy, count in counts.items()]
        object.__setattr__(self, "_groups", nodes)

    @cached_property
    def geometry(self) -> Geometry:
        """The constants of mirror map and constraint."""
        return geometry(self.mesh.algorithm)

    @cached_property
    def losses(self) -> LossFacts:
        """What is known of the nodes' losses."""
        return LossFacts.of(self.mesh)

    @cached_property
    def convex(self) -> bool | None:
        """Whether all losses are convex; None if this is unknown.

        For convex losses a bound is on the regret in losses, for others on the first-order regret.
        """
        return self.losses.convex

    @cached_property
    def network(self) -> Network:
        """The constants that the bound needs. Raises NoBound.

        For a range loss beta is 1. This holds where the decision is farther from the sensor than half of the
        measured distance.
        """
        settings, algorithm = self.mesh.settings, self.mesh.algorithm
        reason = self._missing()
        if reason is not None:
            raise NoBound(reason)
        middle, largest = self._gradients()
        regulariser = settings.algorithm.regulariser
        lasso = algorithm.lasso if isinstance(algorithm, SparseDola) else 0.0
        first_order = 0.0 if self.convex else (1.0 + regulariser) * self.geometry.diameter
        return Network(
            nodes=len(settings.nodes),
            rounds=self.rounds,
            geometry=self.geometry,
            step_size=step_size(settings),
            gradient=middle,
            slope=largest + first_order,
            noise=self._noise(),
            left=left_in_all(self.mixes.window, self.mixes.rate),
            strong=regulariser / self.geometry.smoothness if self.convex else 0.0,
            shift=lasso * math.sqrt(algorithm.dimension),
        )

    def bound(self) -> float:
        """Return the bound on the network's regret for the mesh's own settings. Raises NoBound."""
        network = self.network
        if self.mesh.settings.privacy.on == "parameters":
            return with_noise_on_parameters(network)
        return with_noise_on_gradients(network)

    def of_any(self) -> float:
        """Return the largest regret that any sequence of decisions can have. Raises NoBound."""
        return of_any_decisions(self.network)

    def zhou_li(self) -> float:
        """Return the bound of Zhou, Li 2025, Theorem 2, as printed. Raises NoBound.

        For a range loss beta is 1, as in `network`.
        """
        beta = 1.0 if self.losses.smooth_apart else self._smoothness()
        settings = self.mesh.settings
        if not math.isfinite(self.geometry.smoothness):
            raise NoBound("M: the entropy has none")
        size = len(settings.nodes)
        bound = zhou_li_theorem_2(
            nodes=size,
            dimension=settings.dimension,
            rounds=self.rounds,
            geometry=self.geometry,
            gradient=self._gradients()[1],
            smoothness=beta,
            epsilon=self._epsilon(),
            start=math.sqrt(size) * math.hypot(*self.mesh.algorithm.start.tolist()),
            mixing=zhou_li_lemma_2(size, self.mixes.window, self.mixes.least),
        )
        if not math.isfinite(bound):
            raise NoBound("lambda: with these weights it is 1, or 1 to the last digit")
        return bound

    def li(self) -> float:
        """Return the bound of Li et al. 2018, Theorem 5: the strongly convex case if there is a regulariser.

        Raises NoBound.
        """
        settings = self.mesh.settings
        size, strong = len(settings.nodes), settings.algorithm.regulariser
        mixing = li_lemma_3(size, self.mixes.window, self.mixes.least)
        bounds = self._gradients()[1], self.geometry.diameter
        theorem = LiTheorem5(size, settings.dimension, *bounds, self._epsilon(), mixing)
        return theorem.strongly_convex(self.rounds, strong) if strong else theorem.convex(self.rounds)

    def _missing(self) -> str | None:
        parameters = self.mesh.settings.privacy.on == "parameters"
        if self.convex is None:
            return "it is not known whether your own loss is convex, or smooth"
        if not (self.convex or self.losses.smooth_apart):
            name = self.losses.first(lambda loss: not smooth_apart(loss))
            return f"how fast the gradient of the {name} loss changes is not known"
        if any(node.mechanism.band is not None for node, _ in self._groups):
            return "the noise of gaussian-bisr is correlated over rounds; all theorems need it independent"
        if parameters and not math.isfinite(self.geometry.smoothness):
            return "the entropy is not smooth on the simplex's edge, where noise on the parameters leads"
        if parameters and self.mesh.settings.algorithm.regulariser:
            return "noise on the parameters has no bound, and so the regulariser's gradient has none"
        if self.mixes.rate > 1 - 1e-12:
            return "all of the disagreement between nodes may stay"
        return None

    def _smoothness(self) -> float:
        """Return beta of the loss with the regulariser."""
        curved = self.losses.curvature
        if curved is None:
            name = self.losses.first(lambda loss: curvature(loss) is None)
            raise NoBound(f"beta: the {name} loss has none, or it is not known")
        if curved and self.longest is None:
            raise NoBound("beta: it needs the longest features (the key `norm` of a schema bounds them)")
        return curved * (self.longest or 0.0) ** 2 + self.mesh.settings.algorithm.regulariser

    def _epsilon(self) -> float:
        """Return the least epsilon of any node's release. Raises NoBound.

        The papers' theorems are for Laplace noise, so another mechanism has no bound.
        """
        smallest = math.inf
        for node, _ in self._groups:
            if node.privacy.mechanism not in {"laplace", "none"}:
                raise NoBound(f"its noise is Laplace's, not that of {node.privacy.mechanism}")
            if node.mechanism.epsilon is not None:
                smallest = min(smallest, float(node.mechanism.epsilon))
        return smallest

    def _gradients(self) -> tuple[float, float]:
        """Return the root mean square and the maximum, over nodes, of a clipped gradient's largest L2 norm.

        The regulariser's gradient is included.
        """
        regulariser_part = self.mesh.settings.algorithm.regulariser * self.mesh.algorithm.reach
        sizes = [(_theta(node) + regulariser_part, count) for node, count in self._groups]
        try:
            squares = math.fsum(size * size * count for size, count in sizes)
        except OverflowError:  # fsum raises it where + of finite floats gives infinity
            squares = math.inf
        return math.sqrt(squares / len(self.mesh.settings.nodes)), max(size for size, _ in sizes)

    def _noise(self) -> Callable[[int], float]:
        """Return a function from a round to the root mean square, over nodes, of the noise's length."""
        size, groups = len(self.mesh.settings.nodes), self._groups
        return lambda t: math.sqrt(sum(node.noise_length(t) ** 2 * count for node, count in groups) / size)


def _theta(node: MeshNode) -> float:
    """Return the largest L2 norm of a clipped gradient."""
    wide = node.mesh.settings.dimension if node.privacy.norm == "linf" else 1
    return node.privacy.gradient_bound * math.sqrt(wide)


# Measures a schedule: how many consecutive rounds connect all nodes, and how much disagreement they leave.

_LOOKED_AT = 1_000  # rounds that are examined of a run without end
_MOST = 5_000
_WIDEST = 100
_DRAWS = 4_000_000
_PRODUCTS = 200_000_000  # multiplications of numbers in the matrix products of windows


class Windows(NamedTuple):
    """The windows of a schedule (consecutive rounds whose edges connect all nodes), with all nodes present.

    width: each window of this many rounds that begins in one of the rounds 1 to `starts` connects all nodes.
        None: some window of `limit` rounds does not.
    rate: each window that begins in one of the rounds 1 to `measured` leaves at most this fraction of the
        disagreement. None: not measured.
    drawn: whether each round's edges are drawn anew.
    whole: whether the measured windows are all windows of the run.
    """

    drawn: bool
    starts: int
    limit: int
    width: int | None
    rate: float | None
    measured: int
    whole: bool


class Least(NamedTuple):
    """The smallest positive weight, and whether every node has a positive weight on itself in every round."""

    weight: float
    lazy: bool


def windows(schedule: Schedule, rounds: int | None) -> Windows:
    """Return a schedule's windows, measured as far as is affordable; `rounds` is None for an endless run."""
    random = isinstance(schedule, SwitchingSchedule)
    starts, limit = _looked_at(schedule, rounds)
    width = window(schedule, limit, starts)
    measured = min(starts, max(1, _PRODUCTS // len(schedule.graph.nodes) ** 3))
    rate = None if width is None else mixing_rate(schedule, width, measured)
    complete = measured >= (rounds or math.inf) if random else measured == starts
    return Windows(random, starts, limit, width, rate, measured, complete)


def least(schedule: Schedule, seen: Windows) -> Least:
    """Return the least weight in the rounds that `seen` covers."""
    return Least(*least_weight(schedule, seen.starts))


def _looked_at(schedule: Schedule, rounds: int | None) -> tuple[int, int]:
    """Return the number of window starts to check, and the largest width of a window to try."""
    if isinstance(schedule, SwitchingSchedule):
        affordable = max(1, _DRAWS // max(1, schedule.graph.sources.size) - _WIDEST)
        return min(rounds or _LOOKED_AT, _MOST, affordable), _WIDEST
    size = len(schedule.parts) if isinstance(schedule, CycleSchedule) else 1
    return size, size
