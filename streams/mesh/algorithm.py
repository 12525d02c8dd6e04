"""Makes the algorithm, losses, slots and schedule of a mesh from their settings."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal

import numpy as np

from nodes.algorithms import (
    Algorithm,
    Constant,
    DynamicMirrorDescent,
    GradientAt,
    Inverse,
    InverseSqrt,
    MirrorDescent,
    ShiftedInverse,
    SparseDola,
    StepSize,
)
from nodes.discriminant import Discriminant, NearestMean, RidgeDiscriminant, RunningMeans, mean_deviation
from nodes.dynamics import Dynamics, gain_metric, motion
from nodes.geometry.constraints import Box, Constraint, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis, MirrorMap
from nodes.geometry.mirror_step import mirror_step
from nodes.losses.losses import (
    PLAIN,
    Absolute,
    Bearing,
    Clipped,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Loss,
    RangeDifference,
    RangeFrom,
    RangeLoss,
    RobustRange,
    Scaled,
    Softmax,
    Squared,
    Weighted,
)
from nodes.machine.slots import CountSlots, Slots, TimeSlots
from nodes.privacy.features import ClassSums, Moments, RowFeatures
from nodes.privacy.l2_sphere import sphere_radius
from nodes.privacy.mechanism import Mechanism
from nodes.values import FloatArray
from streams.mesh.plugins import Code
from streams.mesh.settings.algorithm import ConstraintSettings, LossSettings
from streams.mesh.settings.mesh import GraphSettings, MeshSettings
from streams.mesh.settings.privacy import PrivacySettings, TimeSlotsSettings
from topology.graph import Graph, complete, erdos_renyi, from_edges, grid, ring, star
from topology.schedules import CycleSchedule, FixedSchedule, Schedule, SwitchingSchedule
from topology.weights import Weights, fixed

KAPPA = 3.0
"""The weight of the classes' sums in `moments` if the settings give none."""
_STEP_SIZES: dict[str, Callable[[float], StepSize]] = {
    "constant": Constant,
    "inverse-sqrt": InverseSqrt,
    "inverse": Inverse,
}


def constraint(mesh: MeshSettings) -> Constraint:
    """Return Omega, the set of a mesh's decisions."""
    return omega(mesh.algorithm.constraint, mesh.dimension)


def omega(settings: ConstraintSettings, dimension: int) -> Constraint:
    """Return Omega, the set that the settings describe."""
    if settings.l1_ball is not None:
        return L1Ball(dimension, settings.l1_ball)
    if settings.l2_ball is not None:
        return L2Ball(dimension, settings.l2_ball)
    if settings.linf_ball is not None:
        return LinfBall(dimension, settings.linf_ball)
    if settings.box is not None:
        return Box(_corner(settings.box.lower, dimension), _corner(settings.box.upper, dimension))
    if settings.reach is not None:
        bounds = settings.reach.bounds
        corner = np.repeat(bounds, dimension // len(bounds))
        return Box(-corner, corner)
    return Simplex(dimension)


def mirror_map(mesh: MeshSettings) -> MirrorMap:
    """Return phi, the mirror map of a mesh."""
    settings = mesh.algorithm.mirror_map
    if mesh.algorithm.gains is not None:
        return Mahalanobis(_gains(mesh)[0])
    if settings.mahalanobis is None:
        return Euclidean() if settings.euclidean else Entropy()
    if len({len(row) for row in settings.mahalanobis}) > 1:
        raise ValueError("the rows of the matrix must be of one length")
    matrix = np.array(settings.mahalanobis)
    return Mahalanobis(matrix[0] if len(matrix) == 1 else matrix)


def step_size(mesh: MeshSettings) -> StepSize:
    """Return alpha, the step sizes of a mesh."""
    settings = mesh.algorithm.step_size
    if settings.rule == "shifted-inverse":
        return ShiftedInverse(settings.a, settings.b or 0.0)
    return _STEP_SIZES[settings.rule](settings.a)


def algorithm(mesh: MeshSettings) -> Algorithm:
    """Return the mirror step with its step size, or Sparse DOLA.

    Raises NotOffered, a ValueError, if there is no exact step for the mirror map and the set.
    """
    settings, within = mesh.algorithm, constraint(mesh)
    if settings.lasso is not None and isinstance(within, L2Ball):
        return SparseDola(within, step_size(mesh), settings.lasso)
    usual: GradientAt = "consensus" if settings.name == "dola" else "decision"
    phi = mirror_map(mesh)
    still = MirrorDescent(
        mirror_step(phi, within),
        step_size(mesh),
        settings.regulariser,
        settings.gradient_at or usual,
        None if settings.x_1 is None else np.array(settings.x_1),
    )
    model = dynamics(mesh)
    if model is None or settings.seen is None:
        return still
    return DynamicMirrorDescent(still, model, settings.seen, _inverse(mesh, phi)[:, list(settings.seen)])


def following(mesh: MeshSettings, epsilons: Mapping[str, Fraction | None]) -> Algorithm:
    """Return the algorithm of a node, or of nodes side by side in bytes order, by their epsilons."""
    from nodes.following import BeliefMotion, Following, white_noise  # noqa: PLC0415 # few meshes follow so

    settings, model, within = mesh.algorithm, mesh.algorithm.dynamics, constraint(mesh)
    if model is None or model.orders is None or not isinstance(within, Box):
        raise ValueError("curvature: public needs a motion model and a box")
    space, period = model.dimensions or 1, model.period or 1.0
    moves = motion(model.orders, space, period)
    noise = white_noise(model.orders, space, period, settings.jerk or 0.0)
    by_time = mesh.slots.by == "time"
    names = sorted(epsilons)
    responses = [1.0 if (epsilon := epsilons[name]) is None else sphere_radius(epsilon, 1) for name in names]
    places, answers = np.array([mesh.nodes[name].place for name in names]), np.array(responses)
    is_single = len(names) == 1
    return Following(
        BeliefMotion(moves.matrix, by_time, noise=noise, box=within, space=space),
        places[0] if is_single else places,
        answers[0] if is_single else answers,
        settings.error or 0.0,
        settings.presence or 1.0,
        len(mesh.nodes),
        () if settings.height is None else (settings.height,),
        None if settings.x_1 is None else np.array(settings.x_1),
    )


def row_features(mesh: MeshSettings) -> RowFeatures | None:
    """Return the function from a record to what a release sums; None if releases are made of gradients."""
    settings, columns = mesh.algorithm, mesh.columns
    norm: Literal["l1", "l2"] = "l1" if mesh.privacy.mechanism == "laplace" else "l2"
    if settings.name == "moments":
        return Moments(columns, settings.kappa or KAPPA, settings.signed)
    if settings.name == "class-sums":
        classes, entries = mesh.loss.softmax or 2, settings.entries or columns
        return ClassSums(columns, classes, norm, entries, settings.signed)
    return None


def means(mesh: MeshSettings, features: RowFeatures, made: Mechanism, rounds: int | None) -> RunningMeans:
    """Return the algorithm of class sums or moments. `rounds` is the last round in which any node learns."""
    decide: Discriminant = NearestMean(mesh.columns, mesh.loss.softmax or 2, mesh.has_cut)
    if mesh.algorithm.name == "moments":
        decide = RidgeDiscriminant(mesh.columns, mesh.algorithm.kappa or KAPPA, mesh.has_cut)

    def deviation(learnt: int) -> float:
        band = None if made.band is None else made.band.matrix
        draw = made.noise_scale(1) / (1.0 if band is None else band.row_norm)
        factors = None if band is None else np.append(1.0, -band.weights * 2.0**-30)
        return mean_deviation(draw, min(learnt, rounds or learnt), factors)

    reach = features.grid.radius * features.grid.step
    return RunningMeans(decide, reach, deviation, intercept=mesh.has_cut, labelled=mesh.loss.signed)


def dynamics(mesh: MeshSettings) -> Dynamics | None:
    """Return the motion model; None if there is none."""
    settings, by_time = mesh.algorithm.dynamics, mesh.slots.by == "time"
    if settings is None:
        return None
    if settings.matrix is not None:
        return Dynamics(np.array(settings.matrix), by_time)
    return motion(settings.orders or 1, settings.dimensions or 1, settings.period or 1.0, by_time=by_time)


def _gains(mesh: MeshSettings) -> tuple[FloatArray, FloatArray]:
    """Return Q and Q^-1, where the gains define the mirror map."""
    settings = mesh.algorithm
    wide = 1 if settings.dynamics is None else settings.dynamics.dimensions or 1
    with np.errstate(all="ignore"):  # the mirror map refuses what is not finite
        return gain_metric(settings.gains or (), wide)


def _inverse(mesh: MeshSettings, phi: MirrorMap) -> FloatArray:
    """Return Q^-1: exactly as the gains define it, or from the mirror map."""
    if mesh.algorithm.gains is not None:
        return _gains(mesh)[1]
    if isinstance(phi, Mahalanobis):
        return np.diag(1.0 / phi.q) if phi.diagonal else np.linalg.inv(phi.q).astype(np.float64)
    return np.eye(mesh.dimension)


def _corner(numbers: tuple[float, ...], dimension: int) -> FloatArray:
    if len(numbers) not in {1, dimension}:
        raise ValueError(
            f"the box has a corner of {len(numbers)} numbers: must be 1 or {dimension} (dimension)"
        )
    return np.broadcast_to(np.array(numbers), (dimension,))


_LOSSES: dict[str, Callable[[], Loss]] = {
    "hinge": Hinge,
    "logistic": Logistic,
    "squared": Squared,
    "absolute": Absolute,
    "linear": Linear,
}


def loss(mesh: MeshSettings, node: str | None, code: Code, privacy: PrivacySettings | None = None) -> Loss:
    """Return a node's loss of one record, weighted by the record's label. `node` None: the loss of the mesh.

    `privacy`: the settings whose clip holds weights within it; None: those of the mesh. Raises MeshFileError
    if the user's code cannot be loaded, or may not run here.
    """
    settings = mesh.loss if node is None else mesh.loss_of(node)
    if settings.own is not None:
        return code.loss(settings.own, None if settings == mesh.loss else node)
    plain = plain_loss(settings)
    if node is not None and mesh.public_places:
        height = () if mesh.algorithm.height is None else (mesh.algorithm.height,)
        return RangeFrom(place=np.array(mesh.nodes[node].place), height=height)
    if mesh.class_weights is None:
        return plain
    weights = np.array(mesh.label_weights)
    if mesh.weighs_within_clip:
        privacy = mesh.privacy if privacy is None else privacy
        plain, weights = Clipped(plain, privacy.gradient_bound, privacy.norm), weights / weights.max()
    return Weighted(plain, np.array(settings.labels), weights)


def plain_loss(settings: LossSettings) -> Loss:
    """Return a built-in loss of one record."""
    if settings.softmax is not None:
        return Softmax(settings.softmax)
    if settings.of_a_place is not None:
        return _of_a_place(settings, settings.of_a_place.huber)
    if settings.bounds is None:
        return _LOSSES[settings.name]() if settings.huber is None else Huber(settings.huber)
    low, high = settings.bounds
    if settings.huber is not None:
        return Scaled(Huber(settings.huber / (high - low)), low, high)
    return Scaled(Squared() if settings.squared else Absolute(), low, high)


def _of_a_place(settings: LossSettings, huber: float | None) -> Loss:
    k = PLAIN if huber is None else huber
    if settings.range_difference is not None:
        return RangeDifference(k, reference=np.array(settings.range_difference.reference))
    if settings.bearing is not None:
        return Bearing(k)
    return RangeLoss() if huber is None else RobustRange(k)


def check_place(settings: LossSettings, dimension: int) -> None:
    """Raise ValueError unless a loss about a sensor's position fits the number of coordinates it sees."""
    if settings.bearing is not None and dimension != 2:
        raise ValueError(f"bearings are in the plane: the loss must see 2 coordinates, not {dimension}")
    difference = settings.range_difference
    if difference is not None and len(difference.reference) != dimension:
        raise ValueError(f"the reference has {len(difference.reference)} numbers: must have {dimension}")


def slots(mesh: MeshSettings, delay: float = 0.0) -> Slots[bytes]:
    """Return empty slots for one node; with slots by time its records wait `delay` seconds."""
    settings = mesh.slots
    if isinstance(settings, TimeSlotsSettings):
        horizon = None if mesh.shift else mesh.horizon  # moved times have no present to catch up with
        return TimeSlots(settings.size, settings.start, settings.period, settings.grace, horizon, delay)
    return CountSlots(settings.size)


def schedule(mesh: MeshSettings) -> Schedule:
    """Return the schedule: which edges are on in which round."""
    settings, nodes, seed = mesh.topology, tuple(mesh.nodes), mesh.seed
    if settings.cycle is not None:
        return CycleSchedule([_content(graph, nodes, seed) for graph in settings.cycle])
    if settings.graph is None:
        raise ValueError("must have either graph or cycle")
    content = _content(settings.graph, nodes, seed)
    if settings.switching is not None and isinstance(content, Graph):
        return SwitchingSchedule(content, settings.switching, seed)
    return FixedSchedule(content)


def _content(settings: GraphSettings, nodes: tuple[str, ...], seed: int) -> Graph | Weights:
    if settings.matrix is not None:
        if {len(row) for row in settings.matrix} != {len(nodes)} or len(settings.matrix) != len(nodes):
            raise ValueError(f"the matrix must have {len(nodes)} rows of {len(nodes)} numbers, one a node")
        return fixed(nodes, settings.matrix)
    if settings.grid is not None:
        return grid(nodes, *settings.grid)
    if settings.erdos_renyi is not None:
        random_graph = settings.erdos_renyi
        return erdos_renyi(nodes, seed, mean_degree=random_graph.mean_degree, p=random_graph.p)
    edges = settings.edges or settings.directed_edges
    if edges is not None:
        return from_edges(nodes, edges, directed=settings.directed_edges is not None)
    if settings.star:
        return star(nodes)
    return ring(nodes) if settings.ring else complete(nodes)
