"""Sources of sparse records: libsvm lines, or matrices in compressed sparse rows, read as such lines.

Their dimension is the mesh's. They have no timestamps, so they need slots by count.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.settings.base import Positive, Settings, Vector, refusal
from streams.mesh.settings.files import FilePath, RecordBytes, TakeSettings, check_shuffle
from streams.mesh.settings.schema import check_signs


def _one_or_more(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else [value]


Labels = Annotated[Vector | None, BeforeValidator(_one_or_more)]


class SparseLabelSettings(Settings):
    """The label: the number that a record starts with; or +1 for those in `positive` and -1 for `negative`.

    Without `negative` all other numbers are -1; with it, they make the record unreadable.
    """

    positive: Labels = None
    negative: Labels = None

    @model_validator(mode="after")
    def _negative_beside_positive(self) -> Self:
        check_signs(self.positive, self.negative)
        return self


class _SparseSettings(Settings):
    """Settings of both kinds. `norm`: rows longer than that in L2 are scaled down to it."""

    path: FilePath = None
    label: SparseLabelSettings = SparseLabelSettings()
    norm: Positive | None = None
    take: TakeSettings | None = None
    shuffle: bool = False
    max_record_bytes: RecordBytes = None


class LibsvmSettings(_SparseSettings):
    """Lines `label index:value ...`, indices ascending from `index_base`; a file, `.gz` unpacked, or `-`."""

    kind: Literal["libsvm"]
    index_base: Literal[0, 1] = 1

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        check_shuffle(self.path, shuffle=self.shuffle)
        return self


class CsrSettings(_SparseSettings):
    """An .npz file with the arrays data, indices, indptr and shape, as SciPy saves them, and y, the labels.

    `rows`: only rows from the first number up to, not including, the second. `split`: only rows where the
    file's array `split` has that value.
    """

    kind: Literal["csr"]
    rows: Annotated[tuple[int, int] | None, Field(strict=False)] = None
    split: int | None = None

    @property
    def index_base(self) -> int:
        """The first index in the lines made from the rows."""
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
