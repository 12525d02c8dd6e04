"""Checks that sources fit the mesh and each other: features, labels, and parts that share no record."""

import json
from hashlib import blake2b
from itertools import zip_longest
from math import gcd
from typing import NamedTuple, Protocol

from streams.mesh.errors import Problem, elided
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, SourceSettings, TopicSettings
from streams.mesh.settings.schema import LabelSettings, SchemaSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings

# Checks that a source's features and labels fit the mesh.


class Fitted(Protocol):
    """The shared part of a mesh file of any kind, as far as sources must fit it."""

    dimension: int
    loss: LossSettings

    @property
    def features(self) -> SchemaSettings | None:
        """The schema that all records share; None if each source has its own schema."""

    @property
    def loss_dimension(self) -> int:
        """The number of coordinates that the loss sees."""

    @property
    def public_places(self) -> bool:
        """Whether sensors' positions are settings, and records have no features."""

    @property
    def by_time(self) -> bool:
        """Whether records need a timestamp."""

    def loss_of(self, name: str, /) -> LossSettings:
        """Return the loss of one member's records."""


def loss_at(shared: Fitted, path: tuple[str, ...]) -> LossSettings:
    """Return the loss for the records of the source at `path`: the node's own loss, or the shared one."""
    return shared.loss_of(path[1]) if path[0] == "nodes" else shared.loss


def by_time(shared: Fitted) -> bool:
    """Return whether slots go by time, so that records need a timestamp."""
    return shared.by_time


def untimed_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    """Return the mistake of a user's own source under slots by time, as its records have no timestamps."""
    if mesh.slots.by == "count":
        return []
    return [Problem(file, ("mesh", "slots", "by"), "an own source has no times: must be count", "time")]


def width_problems(file: str, path: tuple[str, ...], mesh: Fitted, width: int) -> list[Problem]:
    """Return the mistakes in a source's number of features.

    With the user's own loss any number is allowed.
    """
    dimension, loss = mesh.loss_dimension, loss_at(mesh, path)
    if loss.own is not None or loss.decisions_per_feature * width == dimension:
        return []
    if dimension != mesh.dimension:
        needed = loss.decisions_per_feature * width
        text = f"makes {width} features: the loss must see {needed} coordinates of the state, not {dimension}"
        return [Problem(file, path, text)]
    if loss.softmax is None:
        text = f"must be {dimension}, the dimension of the mesh (mesh.dimension, if that should be {width})"
        return [Problem(file, path, f"makes {width} features: {text}")]
    factors = f"{loss.softmax} classes of {width} features ({'.'.join(path)})"
    text = f"must be {loss.softmax * width}: {factors}"
    return [Problem(file, ("mesh", "dimension"), text, mesh.dimension)]


def feature_problems(file: str, path: tuple[str, ...], mesh: Fitted, schema: SchemaSettings) -> list[Problem]:
    """Return the mistake of a schema whose features, or their number, differ from those of the mesh."""
    shared = mesh.features
    if mesh.public_places and schema.width:
        text = "positions are in mesh.nodes (algorithm.curvature), and no record may show one: must be {}"
        return [Problem(file, (*path, "features"), text, list(schema.features) or "an intercept")]
    if mesh.public_places:
        return []
    if not schema.features:
        return [Problem(file, (*path, "features"), "must not be empty", {})]
    problem = None if shared is None else features_apart(file, path, schema, shared, "mesh.features")
    return width_problems(file, path, mesh, schema.width) if problem is None else [problem]


def features_apart(
    file: str, path: tuple[str, ...], schema: SchemaSettings, shared: SchemaSettings, whose: str
) -> Problem | None:
    """Return the first mistake of a schema that makes other features than `shared`, which `whose` names."""
    places = zip_longest(schema.recipe, shared.recipe)
    odd = next((place for place in places if place[0] != place[1]), None)
    if odd is not None:
        actual, needed = _spelt(schema, odd[0]), _spelt(shared, odd[1])
        place = _first_difference(*odd) if actual == needed else ""
        text = f"{actual} where {whose} have {needed}{place}: must make the same features, in their order"
        return Problem(file, (*path, "features"), text)
    for key in ("intercept", "norm"):
        value, needed_value = getattr(schema, key), getattr(shared, key)
        if value != needed_value:
            needed = "not be given" if needed_value is None else f"be {json.dumps(needed_value)}"
            return Problem(file, (*path, key), f"must {needed}, as in {whose}", value)
    return None


_Recipe = tuple[str, str, object, int]
"""How a column becomes features, in the form of `SchemaSettings.recipe`."""


def _spelt(schema: SchemaSettings, column: _Recipe | None) -> str:
    """Return how a column becomes features, as a mesh file has it.

    `missing` is included where it adds a feature. It comes last, as long settings are elided.
    """
    if column is None:
        return "no column"
    name, word, setting, _ = column
    if isinstance(setting, tuple):
        setting = [int(x) if isinstance(x, float) and x.is_integer() else x for x in setting]
    missing = schema.features[name].missing
    marked = missing is not None and schema.features[name].marks_missing
    text = word if setting is True and not marked else f"{word}: {json.dumps(setting, ensure_ascii=False)}"
    if missing is not None and marked:
        return f"{elided(f'{name}: {{{text}')}, missing: {{as: {missing.as_}}}}}"
    return elided(f"{name}: {text}" if setting is True else f"{name}: {{{text}}}")


def _first_difference(actual: _Recipe | None, needed: _Recipe | None) -> str:
    """Return the text that names the first difference of two lists, for lists too long to be shown whole."""
    settings = [column[2] if column and isinstance(column[2], tuple) else () for column in (actual, needed)]
    pairs = enumerate(zip_longest(*settings), 1)
    number, pair = next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), (0, ()))
    if not pair:
        return ""
    first, second = ("nothing" if x is None else elided(json.dumps(x, ensure_ascii=False)) for x in pair)
    return f" (at place {number}: {first} where they have {second})"


def label_problems(
    file: str, path: tuple[str, ...], loss: LossSettings, label: LabelSettings
) -> list[Problem]:
    """Return the mistakes in a schema's label. The user's own loss allows any label."""
    if loss.own is not None:
        return []
    if loss.softmax is not None:
        if label.classes is None:
            return [Problem(file, path, f"must have classes, {loss.softmax} of them, for loss {loss}")]
        if len(label.classes) != loss.softmax:
            text = f"{len(label.classes)} classes: must be {loss.softmax}, for loss {loss}"
            return [Problem(file, (*path, "classes"), text)]
    elif label.classes is not None:
        return [Problem(file, (*path, "classes"), f"goes with loss softmax, not with {loss}")]
    else:
        return _sign_problems(file, path, loss, signed=label.positive is not None)
    return []


def sparse_problems(file: str, path: tuple[str, ...], mesh: Fitted, source: SparseSettings) -> list[Problem]:
    """Return the mistakes of a source of sparse records."""
    wrong, loss = [], loss_at(mesh, path)
    if loss.takes_sparse:
        wrong += _sign_problems(file, (*path, "label"), loss, signed=source.label.positive is not None)
    else:
        text = f"makes sparse records, and loss {loss} takes none: must be csv or json-lines"
        wrong.append(Problem(file, (*path, "kind"), text, source.kind))
    if by_time(mesh) and path[0] == "nodes":
        text = "has no times: must be csv, json-lines or localisation for slots by time"
        wrong.append(Problem(file, (*path, "kind"), text, source.kind))
    return wrong


def _sign_problems(file: str, path: tuple[str, ...], loss: LossSettings, *, signed: bool) -> list[Problem]:
    if signed == loss.signed:
        return []
    need = "must say which labels are positive" if loss.signed else "must be a number"
    return [Problem(file, path, f"{need}, for loss {loss}")]


# Which part of a source's records a node uses, and which parts cannot share a record.
#
# With slots by count a part is every k-th record, as the places of records are public. With slots by time a
# record's place must not decide whether it is used: one record more would move all later records to other
# parts. So a record's part is then a hash of its own bytes.

_KEY = b"mirrormesh: the part of a record"
"""The key of the hash is the same for all runs, seeds and meshes. So two parts that share no record in one
run share none in any two runs."""


def takes(take: TakeSettings, value: bytes) -> bool:
    """Return whether a part that is chosen by content contains a record, given the bytes that its decoder
    reads.

    Each record is in exactly one of the `every` parts. Records of equal bytes are in the same part.
    """
    digest = blake2b(value, key=_KEY, digest_size=16).digest()
    return int.from_bytes(digest, "little") % take.every == take.offset


class Part(NamedTuple):
    """The part of a source's records that a node takes: number `first` of `every`.

    By their places (`content` None) these are the lines `first`, `first` + `every`, ... `header`: lines
    before the first record. `shuffled`: lines count in the seed's order. `rows`, `split`: the part of a
    matrix that is taken before lines are counted.

    By their content they are those that `takes` chooses. `content`: what makes records of one file the
    same bytes, their kind and, where rows are spelt out, their columns.

    `partitions`: of a topic; None: all. `over_lines`: what counts is a record, which may be several lines.
    """

    first: int = 0
    every: int = 1
    header: int = 0
    shuffled: bool = False
    rows: tuple[int, int] | None = None
    split: int | None = None
    content: tuple[str, ...] | None = None
    partitions: tuple[int, ...] | None = None
    over_lines: bool = False

    def overlaps(self, other: "Part") -> bool:
        """Return whether some record of one file may be in both parts. False only if no record can be."""
        if self.rows and other.rows and (self.rows[0] >= other.rows[1] or other.rows[0] >= self.rows[1]):
            return False
        if self.split is not None and other.split is not None and self.split != other.split:
            return False
        if self.partitions and other.partitions and not set(self.partitions) & set(other.partitions):
            return False
        if self.content is not None or other.content is not None:
            alike = (self.content, self.every) == (other.content, other.every)
            return not alike or self.first == other.first
        same_order = self[2:] == other[2:]
        if not same_order and (self.shuffled or other.shuffled or self[4:] != other[4:]):
            return True  # lines are counted in different orders
        distance = self.header + self.first - other.header - other.first
        return distance % gcd(self.every, other.every) == 0


def part_of(source: SourceSettings | None, *, by_time: bool) -> Part:
    """Return the part of its file or topic that a source reads; for other sources, all of it."""
    if isinstance(source, TopicSettings):
        return Part(partitions=source.partitions)
    if not isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        return Part()
    rows, split = (source.rows, source.split) if isinstance(source, CsrSettings) else (None, None)
    take = source.take or TakeSettings(every=1, offset=0)
    if by_time:
        return Part(take.offset, take.every, rows=rows, split=split, content=_content(source))
    header = isinstance(source, FileSettings) and source.kind == "csv" and source.columns is None
    over_lines = (
        isinstance(source, FileSettings) and source.dialect is not None and source.dialect.line_breaks
    )
    return Part(take.offset, take.every, int(header), source.shuffle, rows, split, over_lines=over_lines)


def _content(source: FileSettings | LibsvmSettings | CsrSettings) -> tuple[str, ...]:
    if isinstance(source, FileSettings) and source.kind == "parquet":
        return source.kind, *dict.fromkeys(source.record.columns)
    if isinstance(source, FileSettings) and source.dialect is not None:
        return source.kind, source.dialect.encoding, f"line_breaks: {source.dialect.line_breaks}"
    return (source.kind,)
