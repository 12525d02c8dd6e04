"""Reads all spends on data, by whichever run, node or owner, and makes one guarantee over all of them.

A spend identifies its data by a file's path and inode, by a topic's name and id, or by the owner's name for
records in memory. It also names its reader. Two spends that agree in any of these count as spends on the same
data, because files are rewritten, copied and mounted elsewhere. Two files that both exist are compared by
content; nothing of that is stored.

Where two spends agree in one of these, a difference in another proves nothing. They count as separate only if
they read parts that can share no record, or if the operator states it.
"""

import json
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from nodes.accounting.guarantee import Price, RunGuarantee
from nodes.accounting.reuse import Reuse, Total
from nodes.accounting.spends import Data, Spend, merged_lives
from streams.mesh.compatibility import Part, by_time, part_of
from streams.mesh.file import AnyFile
from streams.mesh.kind import check_file, check_member
from streams.mesh.settings.node import FileSettings, FrameSettings, TopicSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.records.shared_records import has_header_alone, same_files, same_frames
from streams.state.folder import JournalError
from streams.state.spends import all_spends, fed_data, readers, spends_beside
from streams.state.spends_topic import Topic

__all__ = [
    "Promise",
    "Reuse",
    "Total",
    "data_of",
    "known_spends",
    "lives_of",
    "price_of",
    "promise",
    "promises_of",
    "stated_apart",
]


@dataclass(frozen=True, slots=True)
class Promise:
    """The guarantee to the owner of a record of one node or owner, over this run and all other known spends.

    `reuse` None: other spends were not read, and the guarantee covers this run alone.
    """

    name: str
    guarantee: RunGuarantee
    reuse: Reuse | None = None

    @property
    def added(self) -> str:
        """Sentences on what other runs and readers add to the guarantee; empty if they add nothing."""
        return "" if self.reuse is None else self.reuse.sentence()

    @property
    def sentence(self) -> str:
        """The guarantee in words."""
        return f"{self.guarantee.sentence(self.name)} {self.added}".strip()

    @property
    def epsilon(self) -> Fraction | None:
        """The epsilon of one record (event level); None if it is not known to be protected."""
        if not self.guarantee.protects or self.delta >= 1:
            return None
        return self.guarantee.epsilon if self.reuse is None else self.reuse.total.epsilon

    @property
    def delta(self) -> float:
        """The delta at which `epsilon` holds."""
        return self.guarantee.delta if self.reuse is None else self.reuse.total.delta


def promise(file: AnyFile, name: str) -> Promise:
    """Return the promise of a node or owner by the mesh file alone. Its other readers may share records.

    Raises UsageError for a wrong argument.
    """
    check_file("file", file)
    check_member("name", name, file)
    return promises_of(file, known_spends(file, [name]))[name]


def promises_of(file: AnyFile, known: Mapping[str, Reuse] | None = None) -> dict[str, Promise]:
    """Return the promise of each name, given the known spends on its data; None: of all, by the mesh file."""
    if known is None:
        known = known_spends(file, file.members)
    return {name: Promise(name, file.guarantee(name), reuse) for name, reuse in known.items()}


def known_spends(
    file: AnyFile,
    names: Iterable[str],
    state: Path | None = None,
    there: Mapping[str, Iterable[Spend] | None] | None = None,
    *,
    own: Mapping[str, Spend] | None = None,
    idle: Collection[str] = (),
) -> dict[str, Reuse]:
    """Return all known spending on the data of these nodes or owners.

    It comes from three sources: the state folder, the lines `there` on their data brokers (None: not asked,
    or away), and the mesh file itself, whose other readers may share records. `own`: the lives that are asked
    about; a name without one gets the run's newest life in the folder. `idle`: names without a life, which
    learn nothing. Raises JournalError if a reader's own lines or journals cannot be read.
    """
    names, there, own = tuple(names), there or {}, own or {}
    mine = {name: all_spends(state, name) for name in names} if state is not None else {}
    beside = () if state is None else spends_beside(state, names)
    fed = {} if state is None else _fed(state, names)
    files = _same_files(file, names, [*mine.values(), beside, own.values()], fed)
    by_name = {}
    for name in names:
        lines = there.get(name)
        lives = merged_lives(*mine.values(), beside, lines or ())
        lives |= {life.identity: life for life in own.values()}  # no journal records a life's end
        # without a folder the newest life of the run that the broker knows is the one that is asked about
        own_lines = mine.get(name, ()) if state is not None else lines or ()
        life = _own_life(file, name, own_lines, lives, own.get(name), idle)
        lives.pop(life.identity, None)
        other_lives = list(lives.values())
        if life.open or life.charged:
            other_lives += _unrecorded(file, name, other_lives)
        compared = _Compared(_with_data(file, life, fed), files)
        other_lives = [_with_data(file, life_beside, fed) for life_beside in other_lives]
        earlier = tuple(
            compared.placed(life_beside) for life_beside in other_lives if compared.may_share(life_beside)
        )
        by = ["this folder"] * (state is not None) + [file.data_topics(name).spends] * (lines is not None)
        by_name[name] = Reuse(earlier, life, " and ".join(by) or "this mesh file", file.member)
    return by_name


def _same_files(
    file: AnyFile, names: Iterable[str], lives: Iterable[Iterable[Spend]], fed: Mapping[str, tuple[Data, ...]]
) -> dict[str, set[str]]:
    """Return for each path the paths of files that now have equal content; likewise for data frames' keys."""
    with_records = [name for name, part in file.owns.items() if not has_header_alone(part.source)]
    source_paths = {data.path for name in with_records for data in data_of(file, name)}
    asked_paths = {data.path for name in names if name in with_records for data in data_of(file, name)}
    asked_paths |= {data.path for name in names for data in fed.get(name, ())}
    recorded = {data.path for source in lives for spend in source for data in spend.data}
    recorded |= {data.path for paths in fed.values() for data in paths}
    groups = same_files(
        *(set(filter(os.path.isabs, paths)) for paths in (asked_paths, source_paths | recorded))
    )
    frames = [part.source for part in file.owns.values() if isinstance(part.source, FrameSettings)]
    return {path: group for group in [*groups, *same_frames(frames)] for path in group}


def _fed(state: Path, names: Collection[str]) -> dict[str, tuple[Data, ...]]:
    """Return the data that were fed to each reader in the folder.

    For another reader with damaged lines they are unknown. Such a reader counts as a life (`spends_beside`).
    """
    fed = {name: fed_data(state, name) for name in names}
    for name in readers(state):
        if name not in names:
            with suppress(JournalError):
                fed[name] = fed_data(state, name)
    return fed


def _own_life(
    file: AnyFile,
    name: str,
    here: Iterable[Spend],
    lives: Mapping[str, Spend],
    own: Spend | None,
    idle: Collection[str],
) -> Spend:
    """Return a reader's life in the file's run: the newest in the folder, or else one that has not begun."""
    if own is not None:
        return own
    mesh, run = file.mesh.name, file.mesh.run
    newest = [spend for spend in here if spend.run == run and spend.mesh in {"", mesh}]
    if newest:
        return lives[newest[-1].identity]
    return _unbegun(file, name)._replace(open=name not in idle)


def _with_data(file: AnyFile, life: Spend, fed: Mapping[str, tuple[Data, ...]]) -> Spend:
    """Return a life with all data that it may have read, and those that `feed` read instead of its source.

    A life of the file's run whose line is lost gets the data that the file names.
    """
    this_run = life.run == file.mesh.run and life.mesh in {"", file.mesh.name}
    data = life.data
    if not data and this_run and life.node in file.owns:
        data = data_of(file, life.node)
    return life._replace(data=(*data, *fed.get(life.node, ()))) if data else life


def _unrecorded(file: AnyFile, name: str, lives: Iterable[Spend]) -> list[Spend]:
    """Return lives of the file's other readers that have no life in its run yet, as they will learn too."""
    begun_readers = {
        spend.node for spend in lives if (spend.mesh, spend.run) == (file.mesh.name, file.mesh.run)
    }
    return [_unbegun(file, reader) for reader in file.owns if reader != name and reader not in begun_readers]


def lives_of(file: AnyFile, charges: Mapping[str, tuple[int, float]]) -> dict[str, Spend]:
    """Return the lives of a run without a state folder, by rounds or answers charged, and streams' costs."""
    return {
        name: _unbegun(file, name)._replace(charged=charged, stream_epsilon=cost, open=False)
        for name, (charged, cost) in charges.items()
    }


def _unbegun(file: AnyFile, name: str) -> Spend:
    price = price_of(file, name)
    return Spend(
        file.mesh.run,
        0,
        price.epsilon,
        price.delta,
        0.0,
        price.stream_delta,
        open=True,
        mesh=file.mesh.name,
        settings=price.settings,
        node=name,
        data=data_of(file, name),
    )


def stated_apart(
    file: AnyFile, state: Path, data: Mapping[str, tuple[Data, ...]], *, other_data: bool
) -> dict[str, tuple[str, ...]]:
    """Return, for each reader, the lives of earlier runs in the folder that are stated to have other data.

    With `other_data` these are all lives of other runs. Without it an earlier run's statement also holds for
    a run that reads the same file, if the file has not changed since. Raises JournalError.
    """
    names = tuple(data)
    mine = {name: all_spends(state, name) for name in names}
    if not other_data and not any(spend.apart for lives in mine.values() for spend in lives):
        return dict.fromkeys(names, ())
    lives = merged_lives(*mine.values(), spends_beside(state, names)).values()
    this_run = (file.mesh.name, file.mesh.run)
    earlier = tuple(sorted(spend.identity for spend in lives if (spend.mesh, spend.run) != this_run))
    return {
        name: earlier if other_data else _stated_before(mine[name], reads) for name, reads in data.items()
    }


def _stated_before(lives: Iterable[Spend], data: tuple[Data, ...]) -> tuple[str, ...]:
    unchanged = all(source_data.state for source_data in data)
    stated = {life for spend in lives if unchanged and spend.data == data for life in spend.apart}
    return tuple(sorted(stated))


# Which data


def data_of(
    file: AnyFile,
    name: str,
    seed: int | None = None,
    topic: Topic | None = None,
    path: str | None = None,
) -> tuple[Data, ...]:
    """Return the data that a node or owner reads by the mesh file. `topic`: the topic that its process reads.

    The file of a topic is the one that is fed to it: `path` if given, else the source's. `seed` replaces the
    mesh file's.
    """
    source = file.owns[name].source if name in file.owns else None
    timed = by_time(file.mesh)
    path = getattr(source, "path", None) if path is None else path
    data = Data()
    if isinstance(source, FrameSettings):
        data = Data(source.in_memory.key, source.in_memory.key)
    elif path not in {None, "-"}:
        data = Data(os.path.realpath(str(path)))
        with suppress(OSError):
            status = Path(data.path).stat()
            if stat.S_ISREG(status.st_mode):
                data = data._replace(
                    inode=f"{status.st_dev}:{status.st_ino}", state=f"{status.st_size}:{status.st_mtime_ns}"
                )
    part: dict[str, object] = {"kind": None if source is None else source.kind}
    if isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        part["part"] = _as_written(part_of(source, by_time=timed))
        part["columns"] = getattr(source, "columns", None)
        if source.shuffle:
            part["seed"] = getattr(file.mesh, "seed", 0) if seed is None else seed
        if timed and isinstance(source, FileSettings):
            part["time"] = source.record.model_dump(mode="json")["timestamp"]
    elif isinstance(source, TopicSettings):
        part["part"] = _as_written(part_of(source, by_time=timed))
    if topic is not None:
        data = data._replace(topic=topic.name, topic_id=topic.id, cluster=topic.cluster)
    return (data._replace(part=json.dumps(part)),)


class _Compared:
    """Compares the data of other lives with the data of one life."""

    def __init__(self, own: Spend, files: Mapping[str, set[str]]) -> None:
        self._own, self._files = own, files
        self._names = {name for data in own.data for name in data.names}
        self._paths = {path for data in own.data for path in files.get(data.path, ())}

    def may_share(self, other: Spend) -> bool:
        """Return whether some record may be in the data of both lives."""
        spend = self._own
        if other.identity in spend.apart or spend.identity in other.apart:
            return False
        if not other.data:  # it is unknown what that life read
            return True
        agree = other.node == spend.node or any(
            data.path in self._paths or not self._names.isdisjoint(data.names) for data in other.data
        )
        if not agree or spend.unit:  # other records may be of the same unit
            return agree
        pairs = [(mine, other_data) for mine in spend.data for other_data in other.data]
        one_run = (spend.mesh, spend.run) == (other.mesh, other.run) and (
            spend.folder == other.folder or not (spend.folder and other.folder)
        )
        return not all(self._disjoint(mine, other_data, one_run=one_run) for mine, other_data in pairs)

    def placed(self, other: Spend) -> Spend:
        """Return the other life, without its spans unless places mean the same records in both lives."""
        pairs = [(mine, other_data) for mine in self._own.data for other_data in other.data]
        if pairs and all(_same_places(mine, other_data) for mine, other_data in pairs):
            return other
        return other._replace(spans=())

    def _bytes(self, mine: Data, its: Data) -> bool:
        """Return whether both files exist now and have equal content."""
        return its.path in self._files.get(mine.path, ())

    def _disjoint(self, mine: Data, its: Data, *, one_run: bool) -> bool:
        """Return whether the data are parts that can share no record."""
        if (mine.topic and mine.topic == its.topic) or (mine.topic_id and mine.topic_id == its.topic_id):
            part, other_part = _part(mine), _part(its)  # parts of one topic, whatever file was fed to it
            return part is not None and other_part is not None and _other_partitions(part, other_part)
        part, other_part = _part(mine), _part(its)
        if part is None or other_part is None or part.overlaps(other_part):
            return False
        if (part.shuffled or other_part.shuffled) and _setting(mine, "seed") != _setting(its, "seed"):
            return False
        placed = part.rows or other_part.rows or part.split is not None or other_part.split is not None
        if part.content is not None and other_part.content is not None and not placed:
            return True  # each record's own bytes choose its part, in any file
        same_file = mine.inode != "" and mine.inode == its.inode
        if one_run:
            return same_file or self._bytes(mine, its)
        if same_file:
            return mine.state != "" and mine.state == its.state
        return self._bytes(mine, its) and _unchanged(mine) and _unchanged(its)


def _same_places(mine: Data, its: Data) -> bool:
    """Return whether an offset, or a time, means the same record in both."""
    if mine.topic or its.topic:
        return mine.topic_id != "" and mine.topic_id == its.topic_id  # a topic made anew counts from 0 again
    shuffled = (part := _part(mine)) is not None and part.shuffled
    unchanged = not shuffled or (mine.state != "" and mine.state == its.state)
    return mine.path == its.path and mine.part == its.part and unchanged


def _setting(data: Data, key: str) -> object:
    return json.loads(data.part).get(key) if data.part else None


def _as_written(part: Part) -> tuple[object, ...]:
    """Return the stored form of a part. If each record is one line, earlier versions can read it, too."""
    return part if part.over_lines else part[:-1]


def _part(data: Data) -> Part | None:
    values = _setting(data, "part")
    if not isinstance(values, list):
        return None
    first, every, header, shuffled, rows, split, content, partitions, *over_lines = values
    rows, content, partitions = (value and tuple(value) for value in (rows, content, partitions))
    return Part(first, every, header, shuffled, rows, split, content, partitions, any(over_lines))


def _other_partitions(part: Part, other: Part) -> bool:
    """Return whether two parts of one topic have no partition in common."""
    return bool(part.partitions and other.partitions) and not part.overlaps(other)


def _unchanged(data: Data) -> bool:
    """Return whether the file is still as it was when its run began."""
    with suppress(OSError):
        status = Path(data.path).stat()
        return data.state == f"{status.st_size}:{status.st_mtime_ns}"
    return False


# What a run costs


def price_of(file: AnyFile, name: str) -> Price:
    """Return the price of a node's releases, or of all answers of an owner."""
    price: Price = file.resolved.price(name)
    return price
