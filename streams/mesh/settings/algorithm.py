"""Settings of the algorithm: mirror map, constraint, step size, starting point. All nodes share them."""

import os.path
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from streams.mesh.errors import MeshFileError
from streams.mesh.model_file import read_model
from streams.mesh.settings.base import Choice, Matrix, Positive, Settings, Vector, refusal


class WarmStart(Settings):
    """The path of a model file, relative to the file that names it, and which of its vectors to take."""

    model: str
    vector: Literal["average", "newest"] = "average"


def warm_start(value: object, info: ValidationInfo) -> object:
    """Replace the path of a model by its numbers; other values stay."""
    if not isinstance(value, dict):
        return value
    settings = WarmStart.model_validate(value)
    folder: Path = info.context["folder"] if info.context else Path()
    try:
        model = read_model(Path(os.path.normpath(folder / settings.model)))
    except MeshFileError as error:
        raise refusal(f"must be a model file: {'; '.join(error.lines)}", "model") from None
    return list(model.average if settings.vector == "average" else model.newest)


def _rows(value: object) -> object:
    """Read the diagonal of a matrix as a matrix of one row."""
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
    """Phi, the geometry of a step. `mahalanobis` takes its matrix Q, or Q's diagonal."""

    words: ClassVar[tuple[str, ...]] = ("euclidean", "entropy")

    euclidean: bool = False
    entropy: bool = False
    mahalanobis: Annotated[Matrix | None, BeforeValidator(_rows)] = None


class BoxSettings(Settings):
    """`lower` <= x <= `upper`."""

    lower: Corner
    upper: Corner


class ConstraintSettings(Choice):
    """Omega, the set of allowed decisions. Balls are centred at 0 and take their radius."""

    words: ClassVar[tuple[str, ...]] = ("simplex",)

    l1_ball: Positive | None = Field(None, alias="l1-ball")
    l2_ball: Positive | None = Field(None, alias="l2-ball")
    linf_ball: Positive | None = Field(None, alias="linf-ball")
    box: BoxSettings | None = None
    simplex: bool = False


class StepSizeSettings(Settings):
    """alpha_t: a, a/sqrt(t), a/t or a/(b + t)."""

    rule: Literal["constant", "inverse-sqrt", "inverse", "shifted-inverse"]
    a: Positive
    b: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _b_where_it_is_used(self) -> Self:
        if self.rule == "shifted-inverse" and self.b is None:
            raise refusal("missing: shifted-inverse is a/(b + t)", "b")
        if self.rule != "shifted-inverse" and self.b is not None:
            raise refusal("only the rule shifted-inverse has b", "b")
        return self


def _absent(value: object) -> bool:
    return value is None  # left out of the digest, which stays as it was before this key


def _public_point(value: object) -> object:
    if value == "private":
        raise refusal(
            "not on a mesh: the gradient at the un-noised x_t breaks the epsilon of the stream "
            "(experiments only); must be decision or consensus"
        )
    return value


class AlgorithmSettings(Settings):
    """One mirror step a round. `x_1` defaults to the point of the constraint where the mirror map is least.

    `x_1` is a list of numbers, or `{model: PATH}` for a model file's; all nodes must have the same.

    `gradient_at` defaults to `decision` for dpdo-nc and `consensus` for dola. `lasso` is rho of sparse-dola,
    which has the Euclidean map, an L2 ball for its dual state, and starts at 0.
    """

    name: Literal["dpdo-nc", "dola", "sparse-dola"]
    mirror_map: MirrorMapSettings = MirrorMapSettings(euclidean=True)
    constraint: ConstraintSettings
    step_size: StepSizeSettings
    regulariser: float = Field(0.0, ge=0)
    gradient_at: Annotated[Literal["decision", "consensus"] | None, BeforeValidator(_public_point)] = None
    x_1: Annotated[Vector | None, BeforeValidator(warm_start)] = None
    lasso: float | None = Field(None, ge=0, exclude_if=_absent)

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
