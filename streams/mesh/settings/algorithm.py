"""Settings of what is learnt and how: the loss of one record, the set, mirror map, step and motion model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_serializer, model_validator

from streams.mesh.errors import MeshFileError
from streams.mesh.settings.base import (
    Choice,
    CodeName,
    Count,
    Matrix,
    Positive,
    Settings,
    Vector,
    absent,
    refusal,
)
from streams.mesh.settings.files import beside
from streams.mesh.settings.schema import as_bounds

# The loss of one record: a word, or a word with its setting.


class ResidualSettings(Settings):
    """The loss of a residual."""

    huber: Positive | None = None
    """The size up to which a residual r is squared. Beyond it the loss grows linearly, so that a wrong
    measurement pulls no harder than a residual of this size. Not given: r^2/2."""


class ReferenceSettings(ResidualSettings):
    """The loss of a residual, and the position of the reference that all sensors share."""

    reference: Vector
    """The position of the reference, one number for each coordinate. It is public."""


def _alone(value: object) -> object:
    return {} if value is True else value


class LossSettings(Choice):
    """The loss of a record with features a and label b at decision x."""

    words: ClassVar[tuple[str, ...]] = (
        "range",
        "hinge",
        "logistic",
        "squared",
        "absolute",
        "linear",
        "bearing",
    )
    either: ClassVar[tuple[str, ...]] = ("range", "bearing")
    beside: ClassVar[tuple[str, ...]] = ("bounds",)

    range_: Annotated[ResidualSettings | None, BeforeValidator(_alone)] = Field(None, alias="range")
    """(||x - a|| - b)^2/2: a sensor at a has measured the distance b to a target."""
    bearing: Annotated[ResidualSettings | None, BeforeValidator(_alone)] = None
    """Half the square of the difference between two angles: the direction from a to x, and the measured
    direction b, in radians from the first axis. In two dimensions."""
    range_difference: ReferenceSettings | None = Field(None, alias="range-difference")
    """(||x - a|| - ||x - reference|| - b)^2/2: a sensor at a has measured the difference b between its own
    distance to a target and the reference's, as by a difference in times of arrival."""
    hinge: bool = False
    """max(0, 1 - b <x, a>), b = +1 or -1."""
    logistic: bool = False
    """log(1 + exp(-b <x, a>)), b = +1 or -1."""
    squared: bool = False
    """(<x, a> - b)^2/2, b a number."""
    absolute: bool = False
    """|<x, a> - b|, b a number."""
    linear: bool = False
    """<x, a>: features are the losses of experts or assets."""
    huber: Positive | None = None
    """The size up to which the residual <x, a> - b is squared. Beyond it the loss grows linearly."""
    softmax: Annotated[int, Field(ge=2, le=1000)] | None = None
    """The number of classes. A decision has the features' number of coordinates for each class."""
    bounds: Annotated[tuple[float, float] | None, Field(strict=False), BeforeValidator(as_bounds)] = None
    """`[lowest, highest]` of the label, for `squared: true`, `absolute: true`, `huber`. Nodes learn from it
    scaled to [0, 1] and held there; what they show is in its unit. Not given: the label as it is."""
    own: CodeName | None = None
    """Your own loss: the name of an entry point, or `package.module:Class`, which the command line allows."""

    @model_validator(mode="after")
    def _bounds_are_of_numbers(self) -> Self:
        if self.bounds is not None and not (self.squared or self.absolute or self.huber):
            raise refusal("is for squared, absolute and huber", "bounds")
        return self

    @property
    def signed(self) -> bool:
        """Whether labels are +1 and -1."""
        return self.hinge or self.logistic

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse records give sparse gradients.

        They do if the loss depends on the score <x, a> alone.
        """
        return self.of_a_place is None and self.softmax is None and self.own is None

    @property
    def of_a_place(self) -> ResidualSettings | None:
        """How residuals count, for a loss that compares x with a sensor's position; None for other losses."""
        return self.range_ or self.bearing or self.range_difference

    @property
    def decisions_per_feature(self) -> int:
        """The number of a decision's coordinates for each feature."""
        return self.softmax or 1

    @property
    def labels(self) -> tuple[float, ...] | None:
        """The labels that a record may have; None if any number is allowed."""
        if self.softmax is not None:
            return tuple(map(float, range(self.softmax)))
        return (-1.0, 1.0) if self.signed else None

    def __str__(self) -> str:
        if self.bounds is not None or self.huber is not None:
            size = "" if self.huber is None else f" ({self.huber:g})"
            label = "" if self.bounds is None else ", label from {:g} to {:g}".format(*self.bounds)
            return f"{self.name}{size}{label}"
        if self.softmax is not None:
            return f"softmax ({self.softmax} classes)"
        if self.of_a_place is not None and self.of_a_place.huber is not None:
            return f"{self.name}, huber ({self.of_a_place.huber:g})"
        return self.name if self.own is None else f"own ({self.own})"

    @model_serializer
    def _as_written(self) -> Any:
        """Return the loss as a mesh file has it: only the word if it has no setting."""
        name, place = self.name, self.of_a_place
        if place is not None:
            settings = place.model_dump(mode="json", exclude_none=True)
            return {name: settings} if settings else name
        if self.bounds is not None:
            return {name: getattr(self, name), "bounds": list(self.bounds)}
        return name if name in self.words else {name: getattr(self, name)}


# Settings of the algorithm: mirror map, constraint, step size, starting point. All nodes share them.

# Settings of a motion model, and the settings that an algorithm needs with it.

ORDERS = {"constant-velocity": 2, "constant-acceleration": 3}
"""The number of derivatives in a model's state, the position included."""
MOST = 64
"""The largest number of coordinates of a position. A state may have three times as many."""


def _matrix_rows(value: object) -> object:
    if isinstance(value, list) and all(isinstance(row, list) for row in value):
        lengths = {len(row) for row in value}
        if not 1 <= len(value) <= 3 * MOST:
            raise refusal(f"has {len(value)} rows: must have from 1 to {3 * MOST}")
        if lengths != {len(value)}:
            text = " or ".join(str(length) for length in sorted(lengths))
            raise refusal(f"{len(value)} rows of {text} numbers: must be square")
    return value


class DynamicsSettings(Settings):
    """F, the public motion of a state in one round: a model with its dimensions and period, or a matrix."""

    model: Literal["constant-velocity", "constant-acceleration"] | None = Field(None, exclude_if=absent)
    """`constant-velocity`: the state is the position, then the velocity. `constant-acceleration`: then the
    acceleration too. Not given beside `matrix`."""
    dimensions: int | None = Field(None, ge=1, le=MOST, exclude_if=absent)
    """The number of the position's coordinates, which a model needs. Not given beside `matrix`."""
    period: Positive | None = Field(None, exclude_if=absent)
    """The time of a round, in the unit of time of the velocities. A model needs it. With slots by
    time it is the slots'. Not given beside `matrix`."""
    matrix: Annotated[Matrix | None, BeforeValidator(_matrix_rows), Field(exclude_if=absent)] = None
    """The rows of F, square. Not given beside `model`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.model is None) == (self.matrix is None):
            raise refusal("must have either model or matrix")
        for key in ("dimensions", "period"):
            has_value = getattr(self, key) is not None
            if self.model is not None and not has_value:
                raise refusal(f"missing: {self.model} needs it, above 0", key)
            if self.model is None and has_value:
                raise refusal("is for a model, not for a matrix", key)
        return self

    @property
    def orders(self) -> int | None:
        """The number of derivatives in the state; None for a matrix, of which this is unknown."""
        return None if self.model is None else ORDERS[self.model]

    @property
    def dimension(self) -> int:
        """The dimension d of a state."""
        if self.matrix is not None:
            return len(self.matrix)
        return (self.orders or 1) * (self.dimensions or 1)

    @property
    def usual(self) -> tuple[int, ...]:
        """The coordinates that a loss sees by default: a model's position, or all of a matrix's state."""
        return tuple(range(self.dimension if self.dimensions is None else self.dimensions))


class ReachSettings(Settings):
    """A box around 0 for the state of a motion model.

    Each bound is the largest distance of a coordinate from 0.
    """

    position: Positive
    """The bound of a position's coordinates."""
    speed: Positive
    """The bound of a velocity's coordinates."""
    acceleration: Positive | None = Field(None, exclude_if=absent)
    """The bound of an acceleration's coordinates. `constant-acceleration` needs it. Not given for other
    models."""

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bounds, one for each derivative."""
        bounds = (self.position, self.speed)
        return bounds if self.acceleration is None else (*bounds, self.acceleration)


Coordinates = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1, max_length=3 * MOST)
]
"""Distinct indices of coordinates of a state, from 0."""
Gains = Annotated[Vector, Field(strict=False)]
"""k1, k2 and, with an acceleration, k3."""


def check_observes(dynamics: DynamicsSettings, observes: tuple[int, ...] | None) -> None:
    """Raise a refusal unless the loss may see these coordinates of the state."""
    last = dynamics.dimension - 1
    if observes is None:
        return
    if max(observes) > last:
        raise refusal(f"must be coordinates from 0 to {last}", "observes")
    if len(set(observes)) < len(observes):
        raise refusal("names a coordinate twice: every one once", "observes")


def check_gains(dynamics: DynamicsSettings, gains: tuple[float, ...] | None, *, euclidean: bool) -> None:
    """Raise a refusal unless the gains, or a mirror map in their place, fit the model."""
    if dynamics.orders is None:
        if gains is not None:
            raise refusal("is for a model: beside a matrix it must be a mirror_map", "gains")
        return
    names = ", ".join(f"k{k + 1}" for k in range(dynamics.orders))
    needed = f"[{names}], {dynamics.orders} numbers above 0"
    if gains is None:
        if euclidean:
            raise refusal(f"missing: nothing else moves a velocity: must be {needed}", "gains")
        return
    if not euclidean:
        raise refusal("gains are the mirror map: must not be given beside them", "mirror_map")
    if len(gains) != dynamics.orders or not all(gain > 0 for gain in gains):
        raise refusal(f"must be {needed}", "gains")


def check_set(dynamics: DynamicsSettings, reach: ReachSettings | None, box: Mapping[str, int] | None) -> None:
    """Refuse a set in which a velocity has no bound of its own.

    `box`: the number of values in each corner.
    """
    if reach is not None:
        if dynamics.orders is None:
            raise refusal("reach is for a model: must be a box", "constraint", "reach")
        if len(reach.bounds) != dynamics.orders:
            keys = ("position", "speed", "acceleration")[: dynamics.orders]
            raise refusal(f"must have {', '.join(keys)} for {dynamics.model}", "constraint", "reach")
        return
    text = "velocities need bounds of their own"
    if box is None:
        raise refusal(f"{text}: must be {{reach: ...}} or {{box: ...}}", "constraint")
    for key, numbers in box.items():
        if dynamics.orders is not None and numbers == 1:
            raise refusal(f"{text}: must be {dynamics.dimension} numbers", "constraint", "box", key)


class WarmStart(Settings):
    """The vector of a model file as the starting point."""

    model: str
    """The path of a model file, relative to the file that names it."""
    vector: Literal["average", "newest"] = "average"
    """The vector of the model that is read."""


def warm_start(value: object, info: ValidationInfo) -> object:
    """Replace a mapping that names a model file by the numbers of its vector.

    Other values stay as they are.
    """
    if not isinstance(value, dict):
        return value
    settings = WarmStart.model_validate(value)
    try:
        from streams.mesh.model_file import read_model  # noqa: PLC0415 # few files name a model

        model = read_model(Path(beside(settings.model, info)))
    except MeshFileError as error:
        raise refusal(f"must be a model file: {'; '.join(error.lines)}", "model") from None
    return list(model.average if settings.vector == "average" else model.newest)


def _rows(value: object) -> object:
    """Read a list of rows as it is, and the diagonal of a matrix as a matrix of one row."""
    if not isinstance(value, list) or len({isinstance(row, list) for row in value}) != 1:
        raise refusal("must be a list of rows, or a list of the numbers on the diagonal")
    if isinstance(value[0], list):
        return value
    if not all(isinstance(number, int | float) for number in value):
        raise refusal("must be a list of rows, or a list of the numbers on the diagonal")
    return [value]


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list) else [value]


Corner = Annotated[Vector, BeforeValidator(_one_or_more)]
"""One number for all coordinates, or a list with one for each."""


class MirrorMapSettings(Choice):
    """Phi, the geometry of a step."""

    words: ClassVar[tuple[str, ...]] = ("euclidean", "entropy")

    euclidean: bool = False
    """Half of the squared L2 norm."""
    entropy: bool = False
    """The negative entropy, for the simplex."""
    mahalanobis: Annotated[Matrix | None, BeforeValidator(_rows)] = None
    """Half of <x, Q x>: the rows of Q, or the numbers on its diagonal. Q is symmetric and positive
    definite."""


class BoxSettings(Settings):
    """`lower` <= x <= `upper`: a number for all coordinates, or a list with one for each."""

    lower: Corner
    """The lowest value of a coordinate."""
    upper: Corner
    """The highest value of a coordinate."""


class ConstraintSettings(Choice):
    """Omega, the set of allowed decisions. Balls are centred at 0."""

    words: ClassVar[tuple[str, ...]] = ("simplex",)

    l1_ball: Positive | None = Field(None, alias="l1-ball")
    """The L1 ball of that radius."""
    l2_ball: Positive | None = Field(None, alias="l2-ball")
    """The L2 ball of that radius."""
    linf_ball: Positive | None = Field(None, alias="linf-ball")
    """The L-infinity ball of that radius: each coordinate is at most that far from 0."""
    box: BoxSettings | None = None
    """A box."""
    reach: ReachSettings | None = Field(None, exclude_if=absent)
    """A box around 0 for the state of a motion model, with a bound for each derivative."""
    simplex: bool = False
    """Coordinates of at least 0 that sum to 1."""


class StepSizeSettings(Settings):
    """alpha_t, the length of the step of round t."""

    rule: Literal["constant", "inverse-sqrt", "inverse", "shifted-inverse"]
    """`constant`: a. `inverse-sqrt`: a/sqrt(t). `inverse`: a/t. `shifted-inverse`: a/(b + t)."""
    a: Positive
    """The scale of the steps."""
    b: float | None = Field(None, ge=0)
    """The shift of `shifted-inverse`, which needs it. Not given for any other rule."""

    @model_validator(mode="after")
    def _b_where_it_is_used(self) -> Self:
        if self.rule == "shifted-inverse" and self.b is None:
            raise refusal("missing: shifted-inverse is a/(b + t)", "b")
        if self.rule != "shifted-inverse" and self.b is not None:
            raise refusal("only the rule shifted-inverse has b", "b")
        return self


def _false(value: object) -> bool:
    return value is False  # left out of the digest, which stays equal for meshes without this key


def _public_point(value: object) -> object:
    if value == "private":
        raise refusal(
            "not on a mesh: the gradient at the un-noised x_t breaks the epsilon of the stream "
            "(experiments only); must be decision or consensus"
        )
    return value


_CURVED = ("jerk", "error", "presence", "height")
_PLAIN = ("step_size", "mirror_map", "gains", "observes", "regulariser", "gradient_at")
"""Settings of a gradient step, which following by public directions has none of."""


def check_curvature(settings: "AlgorithmSettings") -> None:
    """Raise a refusal unless settings fit `curvature`, or are without it and its keys."""
    if settings.curvature is None:
        key = next((key for key in _CURVED if getattr(settings, key) is not None), None)
        if key is not None:
            raise refusal("goes with curvature: public: must not be given without it", key)
        return
    if settings.name != "dpdo-nc":
        raise refusal(f"{settings.name} has no curvature: must be dpdo-nc", "name")
    for key in _PLAIN:
        if key in settings.model_fields_set:
            raise refusal("curvature: public computes the step: must not be given", key)
    for key in ("dynamics", "jerk", "error"):
        if getattr(settings, key) is None:
            needed = "a motion model" if key == "dynamics" else "it, above 0"
            raise refusal(f"missing: curvature: public needs {needed}", key)


def check_followed(dynamics: DynamicsSettings) -> None:
    """Raise a refusal unless a motion model is one of positions, whose jerk is known."""
    if dynamics.model is None:
        text = "curvature: public needs a model, whose jerk it knows: must be constant-velocity or"
        raise refusal(f"{text} constant-acceleration", "dynamics", "matrix")
    if (dynamics.dimensions or 1) > MOST_CURVED:
        text = f"curvature: public is for positions: must be at most {MOST_CURVED}"
        raise refusal(text, "dynamics", "dimensions")


MOST_CURVED = 3
"""The most coordinates of a position that is followed by public directions."""

ALONE = ("class-sums", "moments")
"""Algorithms that release sums of functions of records, not gradients. They need no set, step or clip."""
_OF_ROWS = {"kappa": ("moments",), "entries": ("class-sums",), "signed": ALONE}
_WITH_THEM = {"name", "kappa", "entries", "signed"}


class AlgorithmSettings(Settings):
    """The algorithm: one mirror step a round, or the mean of the sums."""

    name: Literal["dpdo-nc", "dola", "sparse-dola", "class-sums", "moments"]
    """`dpdo-nc`: a mirror step with the gradient at the decision. `dola`: with the gradient at the weighted
    average of releases, before the projection. `sparse-dola`: dual averaging with a lasso. `class-sums`: the
    sum and the number of the records of each class; the decision is the nearest mean. `moments`: these and
    second moments, for two classes; the decision is a ridge discriminant. The last two have no step, set or
    clip: a record has an L2 norm of at most 1 (the schema's `norm: 1`), and longer ones are scaled to it. So
    they need no other key of `algorithm`."""
    mirror_map: MirrorMapSettings = MirrorMapSettings(euclidean=True)
    """The geometry of a step. sparse-dola takes only `euclidean`."""
    constraint: ConstraintSettings = ConstraintSettings.model_validate({"l2-ball": 1.0})
    """The set in which decisions stay. For sparse-dola it is an L2 ball, the set of its dual state. Needed,
    but not given for class-sums and moments."""
    step_size: StepSizeSettings = StepSizeSettings(rule="inverse", a=1.0, b=None)
    """The step size. Needed, but not given for class-sums and moments."""
    regulariser: float = Field(0.0, ge=0)
    """eta. The gradient gets eta times the weighted average of releases added, which pulls decisions towards
    0. It is 0 for sparse-dola."""
    gradient_at: Annotated[Literal["decision", "consensus"] | None, BeforeValidator(_public_point)] = None
    """The point at which gradients are taken. Not given: `consensus` for dola, `decision` for the others."""
    x_1: Annotated[Vector | None, BeforeValidator(warm_start)] = None
    """The first decision: a list of numbers, or `{model: PATH, vector: average}` for a model file's `average`
    or `newest`. It must be the same for all nodes. Not given: the point of the constraint where the mirror
    map is least. sparse-dola starts at 0."""
    lasso: float | None = Field(None, ge=0, exclude_if=absent)
    """rho, which sparse-dola needs; not given for the other algorithms. A decision's coordinates shrink
    towards 0 by alpha_t rho, and become 0 if they are smaller."""

    dynamics: DynamicsSettings | None = Field(None, exclude_if=absent)
    """The motion model of a target that moves: how a state changes from round to round. It is public. Not
    given: nothing moves by itself. Not for sparse-dola, nor with `entropy` or noise on the parameters."""
    observes: Coordinates | None = Field(None, exclude_if=absent)
    """With `dynamics`: the coordinates of the state that the loss sees, counted from 0. Gradients, clip and
    noise have these coordinates alone. Not given: the position of a model, or all coordinates of a matrix's
    state."""
    gains: Gains | None = Field(None, exclude_if=absent)
    """With a model: [k1, k2], or [k1, k2, k3] with an acceleration. Times alpha they are how far a gradient
    moves the position, the velocity and the acceleration. [k1, k2] stands for the mirror map whose Q^-1 is
    [[k1 I, k2 I], [k2 I, 2 k2^2/k1 I]]. Not given: for a matrix, or with another mirror map."""

    curvature: Literal["public"] | None = Field(None, exclude_if=absent)
    """`public`: each node's `place` is a setting, so the direction of a record's gradient is public, and its
    length of step follows from a public covariance. Only the sign of a residual is private: one number a
    record. For dpdo-nc with a model and the loss `range`, one record a slot, l2-sphere or no noise; there is
    no step size, clip or gain to choose. Not given: gradients, as above."""
    jerk: Positive | None = Field(None, exclude_if=absent)
    """With `curvature`: how fast the model's highest derivative wanders. In a time t the change of a velocity
    has the standard deviation jerk sqrt(t). Needed with it, not given without."""
    error: Positive | None = Field(None, exclude_if=absent)
    """With `curvature`: the standard deviation of a distance's error. Needed with it, not given
    without."""
    presence: Annotated[float, Field(gt=0, le=1)] | None = Field(None, exclude_if=absent)
    """With `curvature`: the share of slots that hold a record, as known without looking. Not given: 1."""
    height: float | None = Field(None, exclude_if=absent)
    """With `curvature`: the coordinate of the target that places have and the motion model has not, such as
    its height above the ground. Not given: places have as many coordinates as the model's position."""
    kappa: Annotated[float, Field(ge=0.01, le=100)] | None = Field(None, exclude_if=absent)
    """For moments: the weight of the classes' sums relative to the second moments. A larger weight is better
    where noise is large. Not given: 3."""
    entries: Count | None = Field(None, exclude_if=absent)
    """For class-sums with laplace: the largest number of a record's features that are not 0. Its square root
    bounds a record's L1 norm, so a smaller number needs less noise. Not given: all."""
    signed: bool = Field(default=False, exclude_if=_false)
    """For class-sums and moments: whether features may be negative, which needs more noise. Not given:
    negative features count as 0."""

    @property
    def alone(self) -> bool:
        """Whether the algorithm releases sums of functions of records, and needs no set, step or clip."""
        return self.name in ALONE

    @property
    def steps(self) -> bool:
        """Whether it steps along clipped gradients of a loss, and so has a clip, a step size and a regret."""
        return not self.alone and self.curvature is None

    @model_validator(mode="after")
    def _of_rows(self) -> Self:
        check_curvature(self)
        for key, names in _OF_ROWS.items():
            if key in self.model_fields_set and self.name not in names:
                raise refusal(f"is for {' and '.join(names)}, not for {self.name}", key)
        foreign_keys = sorted(self.model_fields_set - _WITH_THEM)
        if self.alone and foreign_keys:
            raise refusal(f"{self.name} has no such setting: must not be given", foreign_keys[0])
        needed = ("constraint", "step_size") if self.curvature is None else ("constraint",)
        for key in () if self.alone else needed:
            if key not in self.model_fields_set:
                raise refusal("missing: must be given", key)
        return self

    @model_validator(mode="after")
    def _of_the_motion(self) -> Self:
        if self.dynamics is None:
            for key in ("observes", "gains"):
                if getattr(self, key) is not None:
                    raise refusal("is for a motion model: must not be given without dynamics", key)
            if self.constraint.reach is not None:
                raise refusal(
                    "reach is for a motion model: must be another set without dynamics", "constraint"
                )
            return self
        if self.name == "sparse-dola":
            raise refusal(
                "sparse-dola averages in the dual, which has no motion: must not be given", "dynamics"
            )
        if self.mirror_map.entropy:
            raise refusal("with dynamics there is no entropy: must be euclidean or mahalanobis", "mirror_map")
        if self.regulariser != 0:
            raise refusal("with dynamics it would stop what moves: must be 0", "regulariser")
        check_observes(self.dynamics, self.observes)
        if self.curvature is None:
            check_gains(self.dynamics, self.gains, euclidean=self.mirror_map.euclidean)
        else:
            check_followed(self.dynamics)
        box = self.constraint.box
        corners = None if box is None else {"lower": len(box.lower), "upper": len(box.upper)}
        check_set(self.dynamics, self.constraint.reach, corners)
        return self

    @property
    def seen(self) -> tuple[int, ...] | None:
        """The coordinates that the loss sees; None for all, without a motion model."""
        if self.dynamics is None:
            return None
        return self.dynamics.usual if self.observes is None else self.observes

    @model_validator(mode="after")
    def _of_the_name(self) -> Self:
        if self.name != "sparse-dola":
            if self.lasso is not None:
                raise refusal(f"is for sparse-dola, not for {self.name}", "lasso")
            return self
        if not self.mirror_map.euclidean:
            raise refusal("sparse-dola averages in the dual: must be euclidean", "mirror_map")
        if self.constraint.l2_ball is None:
            raise refusal("sparse-dola keeps its dual state in a ball: must be {l2-ball: ...}", "constraint")
        if self.lasso is None:
            raise refusal("missing: sparse-dola needs rho, a number of at least 0", "lasso")
        if self.x_1 is not None:
            raise refusal("sparse-dola starts at 0: must not be given", "x_1")
        if self.regulariser != 0:
            raise refusal("sparse-dola has lasso in its place: must be 0", "regulariser")
        if self.gradient_at == "consensus":
            raise refusal("sparse-dola has its gradients at the decision: must be decision", "gradient_at")
        return self
