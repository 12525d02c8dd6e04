"""The spending of runs on data: one `Spend` for each life of a journal, and the merge of spends.

A record that k runs have learnt from entered k releases, so the runs' epsilons (and deltas) add up for it. A
record of one run costs only that run's epsilon. At stream level every run counts (Dwork, Roth 2014, theorem
3.16).
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, NamedTuple

from nodes.accounting.guarantee import Price
from nodes.checks import rounded_up

TIME = "time"
"""The `where` of records identified by their time; others by partition and offset."""


DataReuse = Literal["end", "reused"]
"""The operator's statement on records that unknown runs have read: none is read again, or some are."""


class Span(NamedTuple):
    """Records that a run may have learnt from: from `first` to below `end`, in a partition or by time."""

    where: str
    first: float = -math.inf
    end: float = math.inf


class Data(NamedTuple):
    """The data that a life reads: a file, a topic, or a file fed to a topic. A field is "" if not known.

    `path`: a file's real path. `inode`: its device and number. `state`: its size and time of change when the
    run began, which tell that it has not been rewritten since. `topic`, `topic_id`, `cluster`: a topic's.
    `part`: which records, and in what order, as JSON text of the settings that choose them.
    """

    path: str = ""
    inode: str = ""
    state: str = ""
    topic: str = ""
    topic_id: str = ""
    cluster: str = ""
    part: str = ""

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """The names by which data are known. Data with a common name may hold the same records."""
        names = (("path", self.path), ("inode", self.inode), ("topic", self.topic), ("id", self.topic_id))
        return frozenset(name for name in names if name[1])


class Spend(NamedTuple):
    """The spending of one journal life on one reader's data in one run.

    `epsilon`, `delta`: those of a record (None: nothing was protected). `stream_epsilon`, `stream_delta`:
    those of the whole stream. `charged`: the number of releases. Without `spans` the life may have learnt
    from any record. `open`: its end was not recorded, so it may have charged more. `before`: the charges
    among `charged` of unknown runs, as the operator states, and `reuse` whether their records are read again.
    `by_plans`: a journal of the run began with the charges that plans count. `before`, `reuse` and `by_plans`
    are not checked.

    `mesh`, `run`, `folder` and `life` identify the spend: `folder` is the random id of the state folder,
    `life` the journal's random instance. Different lives add up; `charged` counts only a life's own releases.
    `settings` make the price (`Price`), if recorded. `node` is the reader's name, `data` the data that it
    reads (empty: not known). `apart`: the lives that have read other data, as the operator states. `turn`
    counts the life's processes.
    """

    run: str
    charged: int
    epsilon: Fraction | None
    delta: float
    stream_epsilon: float
    stream_delta: float
    spans: tuple[Span, ...] = ()
    open: bool = False
    before: int = 0
    reuse: DataReuse | None = None
    by_plans: bool = False
    mesh: str = ""
    folder: str = ""
    life: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    node: str = ""
    data: tuple[Data, ...] = ()
    apart: tuple[str, ...] = ()
    turn: int = 0

    @property
    def price(self) -> Price:
        """The price of the life's releases."""
        return Price(self.epsilon, self.delta, self.stream_delta, self.settings)

    @property
    def identity(self) -> str:
        """The identity of the life, which all its lines share, in all folders."""
        return f"{self.node}/{self.run}/{self.life or self.folder}"

    @property
    def key(self) -> str:
        """The key of the life's line among the lines of all folders."""
        return f"{self.mesh}/{self.run}/{self.folder}/{self.life}"

    @property
    def sharing(self) -> int:
        """The sets or nodes of one run that a record or unit may be in at this price."""
        return int(dict(self.settings).get("sharing", "1"))

    @property
    def unit(self) -> str:
        """The unit that `epsilon` protects; empty: a record."""
        return dict(self.settings).get("unit", "")

    @property
    def stage(self) -> tuple[int, bool]:
        """The order of a life's lines: each process opens its line, and closes it at an orderly end."""
        return self.turn, not self.open


def merged(one: Spend, other: Spend) -> Spend:
    """Merge two lines of one life. No cost shrinks, and an unknown epsilon counts as unprotected.

    The order of merges does not matter, and repeating one changes nothing. Charges, costs and the operator's
    statements are the largest of both lines; spans begin where the first one does. Whether the life is open,
    the ends of its spans, and the settings of its price are those of the later stage. So a recorded end is
    valid until another process begins.
    """
    early, late = sorted((one, other), key=lambda spend: spend.stage)
    same_stage = early.stage == late.stage
    bare = one.epsilon is None or other.epsilon is None
    return Spend(
        run=late.run,
        charged=max(one.charged, other.charged),
        epsilon=None if bare else max(one.epsilon or Fraction(0), other.epsilon or Fraction(0)),
        delta=max(one.delta, other.delta),
        stream_epsilon=max(one.stream_epsilon, other.stream_epsilon),
        stream_delta=max(one.stream_delta, other.stream_delta),
        spans=_spans(early, late, same=same_stage),
        open=late.open,
        before=max(one.before, other.before),
        reuse="reused" if "reused" in (one.reuse, other.reuse) else one.reuse or other.reuse,
        by_plans=one.by_plans or other.by_plans,
        mesh=max(one.mesh, other.mesh),
        folder=max(one.folder, other.folder),
        life=late.life,
        settings=max(one.settings, other.settings) if same_stage else late.settings,
        node=late.node,
        data=_data(one.data, other.data),
        apart=tuple(sorted({*one.apart, *other.apart})),
        turn=late.turn,
    )


def merged_lives(*sources: Iterable[Spend]) -> dict[str, Spend]:
    """Return the lives of all sources by identity, in the order in which they are met."""
    lives: dict[str, Spend] = {}
    for source in sources:
        for spend in source:
            stored = lives.get(spend.identity)
            lives[spend.identity] = spend if stored is None else merged(stored, spend)
    return lives


def _spans(early: Spend, late: Spend, *, same: bool) -> tuple[Span, ...]:
    """Return the spans of both lines. A place missing in the later line has no end, as its end is unknown."""
    if not (early.spans and late.spans):
        return ()
    before, after = ({span.where: span for span in spend.spans} for spend in (early, late))
    spans = []
    for place in sorted(before.keys() | after.keys()):
        place_spans = [places[place] for places in (before, after) if place in places]
        end = after[place].end if place in after else math.inf
        if same:
            end = max(span.end for span in place_spans) if len(place_spans) == 2 else math.inf
        spans.append(Span(place, min(span.first for span in place_spans), end))
    return tuple(spans)


def _data(one: tuple[Data, ...], other: tuple[Data, ...]) -> tuple[Data, ...]:
    """Return all data of both lines.

    Data that differ only in their `state` have changed, and get an empty state.
    """
    states: dict[Data, set[str]] = {}
    for data in (*one, *other):
        states.setdefault(data._replace(state=""), set()).add(data.state)
    return tuple(
        sorted(
            data if len(data_states) > 1 else data._replace(state=next(iter(data_states)))
            for data, data_states in states.items()
        )
    )


def added(before: float, after: float) -> float:
    """Return the difference of a stream's epsilons, rounded up; infinite if one is unknown."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return math.inf
    return max(0.0, rounded_up(Fraction(after) - Fraction(before)))


def sum_epsilons(before: float, more: float) -> float:
    """Return the sum of two epsilons, rounded up; infinite if one is unknown."""
    if not (math.isfinite(before) and math.isfinite(more)):
        return math.inf
    return rounded_up(Fraction(before) + Fraction(more))
