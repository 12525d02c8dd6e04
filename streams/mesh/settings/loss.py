"""The loss of one record: a word, or a word with its setting."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_serializer

from streams.mesh.settings.base import Choice, CodeName, Positive, Settings, Vector


class ResidualSettings(Settings):
    """The loss of a residual."""

    huber: Positive | None = None
    """The size up to which a residual r is squared; beyond it grows linearly, so that a wrong measurement
    pulls no harder than this. Not given: r^2/2."""


class ReferenceSettings(ResidualSettings):
    """The loss of a residual, and the reference that all sensors measure against."""

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

    range_: Annotated[ResidualSettings | None, BeforeValidator(_alone)] = Field(None, alias="range")
    """(||x - a|| - b)^2/2: a sensor at a has measured the distance b to a target."""
    bearing: Annotated[ResidualSettings | None, BeforeValidator(_alone)] = None
    """Half the square of the angle between the direction from a to x and the measured one, b in radians from
    the first axis; in two dimensions."""
    range_difference: ReferenceSettings | None = Field(None, alias="range-difference")
    """(||x - a|| - ||x - reference|| - b)^2/2: a sensor at a has measured how much further from a target it
    is than the reference, as by a difference in times of arrival."""
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
    """The residual <x, a> - b up to which the loss is squared; beyond, it grows linearly."""
    softmax: Annotated[int, Field(ge=2, le=1000)] | None = None
    """The number of classes. A decision has the features' number of coordinates for each class."""
    own: CodeName | None = None
    """Your own loss: the name of an entry point, or `package.module:Class`, which the command line allows."""

    @property
    def signed(self) -> bool:
        """Whether labels are +1 and -1."""
        return self.hinge or self.logistic

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse records give sparse gradients: if the loss depends on the score <x, a> alone."""
        return self.of_a_place is None and self.softmax is None and self.own is None

    @property
    def of_a_place(self) -> ResidualSettings | None:
        """How residuals count of a loss that compares x with a sensor's place; None: it is another loss."""
        return self.range_ or self.bearing or self.range_difference

    @property
    def decisions_per_feature(self) -> int:
        """The coordinates of a decision for each feature."""
        return self.softmax or 1

    @property
    def labels(self) -> tuple[float, ...] | None:
        """The labels that a record may have; None: any number."""
        if self.softmax is not None:
            return tuple(map(float, range(self.softmax)))
        return (-1.0, 1.0) if self.signed else None

    def __str__(self) -> str:
        if self.huber is not None:
            return f"huber ({self.huber:g})"
        if self.softmax is not None:
            return f"softmax ({self.softmax} classes)"
        if self.of_a_place is not None and self.of_a_place.huber is not None:
            return f"{self.name}, huber ({self.of_a_place.huber:g})"
        return self.name if self.own is None else f"own ({self.own})"

    @model_serializer
    def _as_written(self) -> Any:
        """Return it as in the mesh file: only the word if it needs no setting."""
        name, place = self.name, self.of_a_place
        if place is not None:
            settings = place.model_dump(mode="json", exclude_none=True)
            return {name: settings} if settings else name
        return name if name in self.words else {name: getattr(self, name)}
