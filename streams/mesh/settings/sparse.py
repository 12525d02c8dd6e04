"""Settings of sources of sparse records: libsvm lines, or matrices in compressed sparse rows.

A matrix is read as if its rows were libsvm lines. Both kinds have the mesh's dimension. They have no schema:
an index is a coordinate of the decision.

They have no timestamps, so they need slots by count.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.settings.base import Positive, Settings, Vector, refusal
from streams.mesh.settings.files import FilePath, KeepBack, RecordBytes, TakeSettings, check_shuffle
from streams.mesh.settings.schema import check_signs


def _one_or_more(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else [value]


Labels = Annotated[Vector | None, BeforeValidator(_one_or_more)]


class SparseLabelSettings(Settings):
    """The label of a sparse record."""

    positive: Labels = None
    """The numbers whose label is +1, one or a list. Not given: the label is the number that a record
    starts with."""
    negative: Labels = None
    """The numbers whose label is -1; all others make the record unreadable. Not given: all but `positive`
    are -1."""

    @model_validator(mode="after")
    def _negative_beside_positive(self) -> Self:
        check_signs(self.positive, self.negative)
        return self


class _SparseSettings(Settings):
    """The settings that libsvm lines and matrices share."""

    path: FilePath = None
    """The file. Not given: records come from the data broker alone."""
    label: SparseLabelSettings = SparseLabelSettings()
    """The label."""
    norm: Positive | None = None
    """Rows whose L2 norm is larger are scaled down to this norm. Not given: rows are not scaled."""
    take: TakeSettings | None = None
    """The records to take. Not given: all."""
    shuffle: bool = False
    """Read the records in an order that the seed gives, before `take`. Not for slots by time."""
    keep_back: KeepBack = None
    """The share of the node's records that are kept back, like 0.1: nothing is learnt from them, and the
    closing decision is scored on them, for their owner alone. A kept-back record keeps its place in its slot
    and counts as a gradient of 0. With slots by count a hash of its partition and offset chooses it, with
    slots by time a hash of its own bytes. Not for held-out records or owners. Not given: none."""
    max_record_bytes: RecordBytes = None
    """A longer record is unreadable and not parsed. Not given: max(16 KiB, 64 d), d the larger of the
    mesh's dimension and a record's features, at most 1 MiB."""


class LibsvmSettings(_SparseSettings):
    """Lines `label index:value ...`, indices ascending; `.gz` is unpacked, `-` is standard input."""

    kind: Literal["libsvm"]
    """libsvm lines."""
    index_base: Literal[0, 1] = 1
    """The first index."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        check_shuffle(self.path, shuffle=self.shuffle)
        return self


class CsrSettings(_SparseSettings):
    """An .npz file with the arrays data, indices, indptr and shape, as SciPy saves them, and y, the
    labels.
    """

    kind: Literal["csr"]
    """A matrix in compressed sparse rows."""
    rows: Annotated[tuple[int, int] | None, Field(strict=False)] = None
    """[first, end]: only rows from the first up to, not including, the end. Not given: all."""
    split: int | None = None
    """Only the rows for which the file's array `split` has this value. Not given: all."""

    @property
    def index_base(self) -> int:
        """The first index in the lines that are made from the matrix's rows."""
        return 1

    @model_validator(mode="after")
    def _part(self) -> Self:
        if self.path == "-":
            raise refusal("must be the path of an .npz file, not standard input", "path")
        if self.rows is not None and not 0 <= self.rows[0] < self.rows[1]:
            raise refusal("must be [first, end], 0 <= first < end", "rows")
        if self.rows is not None and self.split is not None:
            raise refusal("goes without rows", "split")
        return self


SparseSettings = LibsvmSettings | CsrSettings
