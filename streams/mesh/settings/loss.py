"""The loss of one record: a word, or a word with its setting."""

from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints, model_serializer

from streams.mesh.settings.base import Choice, Positive


class LossSettings(Choice):
    """The loss of a record with features a and label b at decision x."""

    words: ClassVar[tuple[str, ...]] = ("range", "hinge", "logistic", "squared", "absolute", "linear")

    range_: bool = Field(default=False, alias="range")
    """(||x - a|| - b)^2/2: a sensor at a has measured the distance b to a target."""
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
    own: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Your own loss: `package.module:Class`, or the name of an entry point."""

    @property
    def signed(self) -> bool:
        """Whether labels are +1 and -1."""
        return self.hinge or self.logistic

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse records give sparse gradients: if the loss depends on the score <x, a> alone."""
        return not self.range_ and self.softmax is None and self.own is None

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
        return self.name if self.own is None else f"own ({self.own})"

    @model_serializer
    def _as_written(self) -> Any:
        """Return it as in the mesh file: only the word if it needs no setting."""
        name = self.name
        return name if name in self.words else {name: getattr(self, name)}
