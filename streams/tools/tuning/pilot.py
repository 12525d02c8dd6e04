"""Pilots: public records, from a file or made up, distributed to the nodes of many runs at once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np

from nodes.alone import least_squares, logistic
from nodes.losses.losses import Loss, Scaled, scores
from nodes.sparse import dense
from nodes.values import FloatArray, IntArray, Observations
from streams.local.scoring import ranking
from streams.mesh.compatibility import by_time
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.mesh import PathSettings, TargetSettings
from streams.mesh.settings.node import FileSettings, OwnSourceSettings
from streams.mesh.settings.schema import ColumnSettings, SchemaSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.records.lines import ordered
from streams.records.localisation import NOISE, sensor, target_path
from streams.records.paths import START
from streams.records.record import Decoded, Decoder, SparseRow
from streams.records.sources import OwnDecoder, decoded, give_labels, opened_records
from topology.keyed import generator

Labels = Literal["signs", "numbers"]
"""What the labels of a loss are."""
MOST_NUMBERS = 10_000_000
"""Largest total of numbers in made-up records, about 80 MB."""


class Pilot(Protocol):
    """The source of records for trials."""

    def slots(self, rounds: int, nodes: int, size: int, runs: int, seed: int) -> Iterator[Observations]:
        """Yield the slots of `rounds` rounds, features (runs * nodes, size, p), run by run."""


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Records (n, p) with labels (n,), drawn with replacement, as a stream of any length."""

    features: FloatArray
    labels: FloatArray

    def slots(self, rounds: int, nodes: int, size: int, runs: int, seed: int) -> Iterator[Observations]:
        """Yield slots. Every node draws from the whole pilot."""
        present = np.ones((runs * nodes, size), np.bool_)
        for round in range(1, rounds + 1):
            rows = generator("pilot", seed, round).integers(0, len(self.labels), present.shape)
            yield Observations(self.features[rows], self.labels[rows], present)


def made_up(dimension: int, labels: str, seed: int, records: int = 20_000) -> Resampled:
    """Return records on the unit sphere, labelled by a hidden direction; `labels`: signs or numbers.

    One label in ten is wrong (signs), or off by a tenth (numbers). Long records are fewer.
    """
    random = generator("made-up", seed)
    features = random_features(dimension, records, random)
    values = scores(random.standard_normal(dimension), features)
    return Resampled(features, _labels(values, labels, random))


def random_features(dimension: int, records: int, random: np.random.Generator) -> FloatArray:
    """Return features (n, p) on the unit sphere; long records are fewer."""
    records = min(records, max(1_000, MOST_NUMBERS // dimension))
    features = random.standard_normal((records, dimension))
    features /= np.sqrt((features * features).sum(-1, keepdims=True))
    return features


def made_up_by(schema: SchemaSettings, labels: str, seed: int, records: int = 20_000) -> Resampled:
    """Return records with a schema's features, labelled as those of `made_up`. Half of signs are positive."""
    random = generator("made-up", seed)
    features = features_by(schema, records, random)
    values = scores(random.standard_normal(schema.width), features)
    return Resampled(features, _labels(values - np.median(values), labels, random))


def features_by(schema: SchemaSettings, records: int, random: np.random.Generator) -> FloatArray:
    """Return made-up features (n, p) of a schema; long records are fewer.

    A category is any of a column's with equal chances, or none of them. A number is normal, one with bounds
    uniform between them.
    """
    records = min(records, max(1_000, MOST_NUMBERS // schema.width))
    columns = [_column(column, records, random) for column in schema.features.values()]
    is_outside = schema.intercept == "outside"
    tail = np.full((records, int(bool(schema.intercept))), schema.height)
    features = np.concatenate(columns if is_outside else [*columns, tail], axis=1)
    if schema.norm is not None:
        lengths = np.sqrt((features * features).sum(-1, keepdims=True))
        features /= np.maximum(lengths / schema.norm, 1.0)
    return np.concatenate([features, tail], axis=1) if is_outside else features


def _column(settings: ColumnSettings, records: int, random: np.random.Generator) -> FloatArray:
    width, values = settings.value_width, np.zeros((records, settings.width))
    if settings.number:
        values[:, 0] = random.standard_normal(records)
    elif width == 1 and settings.categories is None:
        values[:, 0] = random.random(records)
    else:
        chosen = random.integers(width + int(settings.categories is not None), size=records)
        values[np.flatnonzero(chosen < width), chosen[chosen < width]] = 1.0
    return values  # none is missing


def _labels(values: FloatArray, labels: str, random: np.random.Generator) -> FloatArray:
    if labels == "numbers":
        return values + 0.1 * random.standard_normal(values.size)
    wrong = random.random(values.size) < 0.1
    return np.where(values > 0, 1.0, -1.0) * np.where(wrong, -1, 1)


@dataclass(frozen=True, slots=True)
class MovingTargets:
    """Sensors on a circle, and for each run its own target, which starts anywhere within the circle.

    Targets move as in the localisation example, with other starts and coins. With a `speed`, the distance of
    a round, they make random manoeuvres.
    """

    speed: float | None = None

    def slots(self, rounds: int, nodes: int, size: int, runs: int, seed: int) -> Iterator[Observations]:
        """Yield slots of `size` successive distances."""
        random = generator("pilot-targets", seed)
        positions = np.array([sensor(number, nodes) for number in range(nodes)])
        paths = np.stack([self._path(random, rounds * size, size) for _ in range(runs)])  # (R, T h, 2)
        offsets = paths[:, :, None] - positions
        distances = np.sqrt((offsets * offsets).sum(-1)) + random.uniform(0.0, NOISE, offsets.shape[:-1])
        features = np.broadcast_to(positions[:, None], (runs, nodes, size, 2)).reshape(-1, size, 2)
        present = np.ones((runs * nodes, size), np.bool_)
        for round in range(rounds):
            part = distances[:, round * size : (round + 1) * size].swapaxes(1, 2)
            yield Observations(features, part.reshape(-1, size), present)

    def _path(self, random: np.random.Generator, records: int, size: int) -> FloatArray:
        if self.speed is not None:
            path = PathSettings.model_validate("random-manoeuvre")
            target = TargetSettings(path=path, speed=self.speed / size)
            return target_path(int(random.integers(1 << 32, 1 << 33)), records, target)
        angle, distance = random.uniform(0.0, 2 * math.pi), 1.5 * math.sqrt(random.random())
        start = distance * np.array([math.cos(angle), math.sin(angle)])
        coins = int(random.integers(1 << 32, 1 << 33))
        positions: FloatArray = start + target_path(coins, records) - START
        return positions


# Finds records on which settings are tried: public records in a file, or made-up ones.


def labels_of(loss: LossSettings) -> Labels | None:
    """Return the kind of a loss's labels; None if they are neither signs nor numbers."""
    if loss.signed:
        return "signs"
    return "numbers" if loss.name in {"squared", "absolute", "huber"} else None


def made_up_like(file: AnyFile, seed: int, option: str) -> Pilot:
    """Return a random pilot for the mesh's loss. Raises UsageError, about the option, if it has none."""
    loss, dimension = file.mesh.loss, file.mesh.loss_dimension
    check_one_loss(file)
    if loss.name == "range" and dimension == 2:
        return MovingTargets(file.target_speed)
    if (kind := labels_of(loss)) is not None:
        return _in_unit(made_up(dimension, kind, seed), loss)
    raise UsageError(f"{option}: there are no made-up records for loss {loss} in {dimension} dimensions")


def _in_unit(records: Resampled, loss: LossSettings) -> Resampled:
    """Return records whose labels, made up about 0, lie about the middle of the loss's bounds."""
    if loss.bounds is None:
        return records
    low, high = loss.bounds
    return replace(records, labels=low + (high - low) * (0.5 + records.labels / 4))


def made_up_by_schema(file: AnyFile, seed: int, option: str) -> tuple[str | None, Pilot]:
    """Return random records with the features of the first schema that is here, and that schema's node.

    Returns None if no schema is here, or if the loss has records of its own kind. Raises UsageError as
    `made_up_like` does.
    """
    generic = made_up_like(file, seed, option)
    if not isinstance(generic, Resampled):
        return None, generic
    for name, part in file.owns.items():
        if isinstance(part.source, FileSettings):
            kind = "signs" if file.mesh.loss.signed else "numbers"
            return name, _in_unit(made_up_by(part.source.record, kind, seed), file.mesh.loss)
    return None, generic


def from_file(file: AnyFile, pilot: Path) -> Pilot:
    """Return the records of a file, in the format of the first party here that has a file.

    Raises UsageError for a party's own records: nothing may be tuned on private ones. They are compared as
    they decode, so neither their order, nor how they are packed, nor the kind of the file hides them.
    """
    check_one_loss(file)
    if pilot.is_dir():
        raise UsageError(f"{pilot}: is a folder: must be a file of public records")
    if not pilot.is_file():
        raise UsageError(f"{pilot}: no such file: must be a file of public records")
    for name, part in file.owns.items():
        path = Path(getattr(part.source, "path", None) or "-")
        if path.exists() and pilot.samefile(path):
            owner = f"{file.member} {name}'s own source"
            raise UsageError(f"{pilot}: is {owner}: must be another file, of public records")
    for name, part in file.owns.items():
        if isinstance(part.source, FileSettings):
            settings = part.source.of_others(str(pilot)).model_copy(update={"take": None, "shuffle": False})
            rows, labels = decoded(file, settings, (file.part, name, "source"))
            records = Resampled(dense(rows), labels)
            _check_not_private(file, pilot, records)
            return records
    raise UsageError(
        f"{file.path}: no {file.member} here reads CSV or JSON lines, so the pilot has no schema: "
        f"use --synthetic"
    )


def _check_not_private(file: AnyFile, pilot: Path, found: Resampled) -> None:
    """Raise UsageError if more than half of the pilot's distinct records are among those of the parties here.

    Each party may use a part of one file, so the records of all parties are counted together.
    """
    distinct = {_digest(row, label) for row, label in zip(found.features, found.labels, strict=True)}
    private, members = set[bytes](), list[str]()
    for name in file.owns:
        before = len(private)
        private |= distinct.intersection(map(_digest_of, _own_records(file, name)))
        members += [name] if len(private) > before else []
        if 2 * len(private) > len(distinct):
            from streams.terminal.text import listed  # noqa: PLC0415 # trials alone load no terminal

            subject = f"those of {file.member} {listed(members)}"
            text = (
                f"more than half of its distinct records are among {subject}: must be public ones of others"
            )
            raise UsageError(f"{pilot}: {text}")


def _own_records(file: AnyFile, name: str) -> Iterator[Decoded]:
    """Yield a party's decoded records: those in a file here, or of its own code if it is allowed."""
    source, path = file.own(name).source, (file.part, name, "source")
    lines: Iterator[bytes]
    decoder: Decoder
    if isinstance(source, OwnSourceSettings):
        if not file.code.allows(source.name):
            return
        own_decoder = OwnDecoder(*file.own_source(name), source.max_record_bytes, file.dimension)
        lines, decoder = own_decoder.records(partial(file.refuse, (*path, "name"))), own_decoder
    elif isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        if not Path(source.path or "-").is_file():  # a pipe can be read only once
            return
        lines, decoder = opened_records(file, source, path)
        give_labels(file, source, path, decoder)
    else:
        return
    take = None if source.shuffle else source.take  # a shuffled part may be any
    for line in ordered(lines, 0, shuffle=False, take=take, by_time=by_time(file.mesh)):
        pair = decoder.decode(line)
        if pair is not None:
            yield pair


def _digest_of(pair: Decoded) -> bytes:
    features, label = pair
    return _digest(features, label)


def _digest(features: FloatArray | SparseRow, label: float) -> bytes:
    """Return a digest of a record in single precision, in which some kinds of file hold their numbers."""
    with np.errstate(over="ignore"):
        if isinstance(features, SparseRow):
            places, values = features.indices, features.values.astype(np.float32)
        else:
            places = np.flatnonzero(features)
            values = features[places].astype(np.float32)
        stored = values != 0.0
        content = places[stored].astype(np.int64).tobytes() + values[stored].tobytes()
        return blake2b(content + np.float32(label + 0.0).tobytes(), digest_size=16).digest()


def check_one_loss(file: AnyFile) -> None:
    """Raise UsageError if nodes have losses of their own, if units are protected, or places are public.

    Trials run all nodes with one loss and a step of its own, and count every record.
    """
    if getattr(file.mesh, "public_places", False):
        text = "trials run algorithms with a step of their own: must not be given"
        raise UsageError(f"{file.path}: mesh.algorithm.curvature: {text}")
    if getattr(file.mesh, "unit", None) is not None:
        text = "trials count every record, as if no unit bounded them: must be a file without a unit"
        raise UsageError(f"{file.path}: mesh.privacy.unit: {text}")
    if file.with_own_loss:
        raise UsageError(
            f"{file.path}: {file.member} {file.with_own_loss[0]} has its own loss: "
            "trials are for one loss of all nodes"
        )


def labelled(file: MeshFile, pilot: Pilot) -> tuple[FloatArray, FloatArray]:
    """Return the pilot's rows and labels. Raises UsageError unless these are of two signs."""
    if file.mesh.loss.decisions_per_feature > 1:
        raise UsageError(f"--auc: is for losses of one score, not for {file.mesh.loss}")
    if not isinstance(pilot, Resampled) or len(np.unique(np.sign(pilot.labels))) != 2:
        raise UsageError("--auc: the pilot must have labels of both signs")
    return pilot.features, pilot.labels


# What a pilot reaches alone: a plain model of its labelled records, without any node's.
#
# Who has labelled records that are public can also learn from them without privacy. If that model ranks as
# well as the mesh's, the mesh brings them nothing, and settings tuned on them are no evidence for it.

FOLDS = 5
_PULL = 1e-4
_MOST_ROWS, _MOST_COLUMNS = 20_000, 300


class AloneScore(NamedTuple):
    """The figures of a plain model: AUC and AUPRC, None without two classes, and the mean loss."""

    auc: float | None
    auprc: float | None
    loss: float | None


def cross_validated(loss: Loss, kind: Labels, features: FloatArray, labels: FloatArray) -> AloneScore | None:
    """Return what a plain model reaches on a fold of records (n, p) that it has not seen, mean over folds.

    None for fewer than two records a fold, and where `plain_model` is None.
    """
    if len(labels) < 2 * FOLDS:
        return None
    order = generator("folds", 0).permutation(len(labels))[:_MOST_ROWS]
    folds = [
        plain_model(loss, kind, (features[rest], labels[rest]), (features[fold], labels[fold]))
        for rest, fold in _folds(order)
    ]
    figures = [fold for fold in folds if fold is not None]
    if not figures:
        return None
    aucs, auprcs, losses = zip(*figures, strict=True)
    return AloneScore(_mean(aucs), _mean(auprcs), _mean(losses))


def plain_model(
    loss: Loss, kind: Labels, learnt: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]
) -> AloneScore | None:
    """Return what a plain model of records reaches on others; None for more than `_MOST_COLUMNS` columns.

    It is a logistic regression for labels of two signs, and least squares for numbers.
    """
    (features, labels), (test_features, test_labels) = learnt, test
    if isinstance(loss, Scaled):
        labels, test_labels, loss = loss.scaled(labels), loss.scaled(test_labels), loss.loss
    if features.shape[1] > _MOST_COLUMNS:
        return None
    ridge = _PULL * len(labels)  # a weak one, so that weights stay finite where a line separates the labels
    if kind == "signs":
        model = logistic(features, np.where(labels > 0.0, 1.0, -1.0), ridge)
    else:
        model = least_squares(features, labels, ridge)
    ranked = ranking(scores(model, test_features), test_labels) if kind == "signs" else None
    records = Observations(test_features, test_labels, np.ones(len(test_labels), np.bool_))
    mean = float(loss.value(model, records).mean())
    if ranked is None:
        return AloneScore(None, None, mean)
    return AloneScore(ranked.auc, ranked.auprc, mean)


def _folds(order: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    parts = np.array_split(order, FOLDS)
    for k, part in enumerate(parts):
        yield np.concatenate([*parts[:k], *parts[k + 1 :]]), part


def _mean(values: tuple[float | None, ...]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None
