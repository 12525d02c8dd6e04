"""Shows a mesh while it runs: the picture of `watch`, one of its rounds, and the view or lines of `up`."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.status.mesh_status import MeshStatus, NodeStatus
from streams.status.one_round import Neighbour, OneRound
from streams.terminal.report import say, table
from streams.terminal.text import counted, learns_no_more, listed, speed, spent

# Shows the state of a mesh: as a line, or as a picture in 80 columns.

ROOM = 24
"""The width in columns of the names and the picture of edges together. For more nodes edges are only
counted."""
NAME = 16
"""The length of the longest name that is shown whole."""
NARROW = 60
"""On a terminal with fewer columns edges and epsilon are left out, so that the other columns stay whole."""
HELP = (
    ("round", "the last that the node says it has stepped"),
    ("hears", "its row of the graph, a column a node: ● the edge is on, ○ off, - itself"),
    (
        "epsilon",
        "spent on the whole stream in this run, by the round that its heartbeat reports, of its budget",
    ),
    ("seen", "seconds since its last heartbeat"),
    ("silent", "no heartbeat for so long that it is planned without"),
    ("joining", "asks to be planned; listener: it hears in its first round, and is not heard"),
    ("leaving", "is in the last plans; left: in none"),
    ("relaying", "past its last learning round: it passes on, and learns from no record any more"),
    ("two values", "who has two values of its for one round, as that node says"),
    ("simulated", "a seed repeats its noise: nothing is protected"),
    ("dead letters", "what it has refused in this run: two for a second value, at most ten a second"),
    ("refused", "its heartbeats that say nothing, or are not its own, since this watch began"),
    ("behind, ahead", "so many rounds from the middle of the mesh, more than the horizon"),
    ("", "Read: plans, heartbeats, counts of letters. h or ?: the mesh again; q or Ctrl-C: quit."),
)
_LAST = {"silent": -2, "never seen": -1, "relaying": 1, "simulated": 2}
_WORST = {"silent": "bold red", "never seen": "red", "relaying": "cyan", "simulated": "yellow"}


def mesh_line(status: MeshStatus) -> str:
    """Return the state of the mesh in one line."""
    return "; ".join([*_facts(status), *_flags(status.rows), *_ended(status.rows)])


def mesh_picture(
    title: str, trouble: str, status: MeshStatus, height: int, width: int = 80, *, owner: str = ""
) -> RenderableType:
    """Return the state of the mesh in `height` lines of `width` columns.

    `trouble` tells why the state may be old. `owner` is a line for the owner of nodes. Unusual states of
    nodes that have no line of their own are named in the last line.
    """
    head = [_one_line("   ".join(_facts(status)), "bold")]
    if trouble:
        head.append(_one_line(trouble, "bold red"))
    if owner:
        head.append(_one_line(owner, "bold yellow"))
    room = max(0, height - len(head) - 3)  # the title and two lines of headings need the other lines
    if room >= len(status.rows):
        return Group(_title(title), *head, nodes(status, len(status.rows), width))
    row_count = max(0, room - 1)
    rest = status.rows[row_count:]
    footer = _one_line("; ".join([f"{len(rest)} more, for a higher terminal", *_flags(rest)]), "bold")
    return Group(_title(title), *head, nodes(status, row_count, width), footer)


def nodes(status: MeshStatus, shown: int, width: int = 80) -> Table:
    """Return a table of the first `shown` nodes, with a picture of the edges if it fits."""
    wide = width >= NARROW
    as_numbers = len(status.rows) + min(NAME, max(len(row.name) for row in status.rows)) <= ROOM
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", expand=True)
    table.add_column("", justify="right", no_wrap=True, min_width=len(str(len(status.rows))))
    table.add_column("node", no_wrap=True, overflow="ellipsis", max_width=NAME)
    longest = max(len(f"{row.stepped or 0:,}") for row in status.rows)  # other columns are cut first
    table.add_column("round", justify="right", no_wrap=True, min_width=max(5, longest))
    numbers = "".join(str(k % 10) for k in range(1, len(status.rows) + 1))
    if wide:
        table.add_column(f"hears\n{numbers}" if as_numbers else "hears", no_wrap=True)
        table.add_column("epsilon of\nthe stream", justify="right", no_wrap=True)
    table.add_column("seen", justify="right", no_wrap=True, min_width=4)
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    names = [row.name for row in status.rows]
    for number, row in enumerate(status.rows[:shown], 1):
        edges = Text(_edges(row, names) if as_numbers else f"{len(row.hears)} of {len(row.sources)}")
        epsilon = spent(row.spent) + ("" if row.budget is None else f" of {row.budget:g}")
        table.add_row(
            str(number),
            Text(row.name),
            "" if row.stepped is None else f"{row.stepped:,}",
            *((edges, epsilon) if wide else ()),
            "" if row.seen is None else f"{row.seen:,.0f} s",
            Text(
                ", ".join((*row.flags, *_unused(row))),
                next((_WORST[f] for f in row.flags if f in _WORST), "yellow"),
            ),
        )
    return table


def explained(title: str) -> RenderableType:
    """Return the explanation of the words in the picture."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for word, meaning in HELP[:-1]:
        grid.add_row(Text(word, "bold"), meaning)
    return Group(_title(title), grid, Text(HELP[-1][1]))


def _title(title: str) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(Text(title, "bold"), Text("h help  q quit", "dim"))
    return grid


def _flags(rows: Sequence[NodeStatus]) -> list[str]:
    """Return the nodes in unusual states, by flag. Absent nodes are first."""
    flags: dict[str, list[str]] = {}
    for row in rows:
        for flag in row.flags:
            flags.setdefault(flag, []).append(row.name)
    worst = sorted(flags, key=lambda flag: _LAST.get(flag, 0))
    return [f"{flag}: {listed(flags[flag])}" for flag in worst]


def _unused(row: NodeStatus) -> list[str]:
    return [f"{counted(row.unused, 'round')} unused"] if row.unused else []


def _ended(rows: Sequence[NodeStatus]) -> list[str]:
    """Return a sentence on each node that learns no more though a part of its budget is left."""
    return [
        f"{row.name} {learns_no_more(row.learnt_until, row.unused, exactly=False)}"
        for row in rows
        if row.learnt_until is not None and row.unused
    ]


def _facts(status: MeshStatus) -> list[str]:
    end = "" if status.rounds is None else f" of {status.rounds:,}"
    planned = "the run is over" if status.over else f"{status.lead:,} planned ahead"
    live = f"{status.live:,} of {counted(len(status.rows), 'node')} live"
    facts = [f"round {status.round:,}{end}", speed(status.rate), planned, live]
    return [fact for fact in facts if fact]


def _edges(row: NodeStatus, names: list[str]) -> str:
    marks = {name: "●" if name in row.hears else "○" for name in row.sources} | {row.name: "-"}
    return "".join(marks.get(name, " ") for name in names)


# Shows a mesh that `up` runs: a live picture on a terminal, lines elsewhere.

# Draws a mesh and its processes for a terminal: columns of fixed width, and a line for each warning.

STATE, ROUND, GAP = 15, 5, 2
"""Widths in columns: of `silent for 19 s`, the least of a round, and of the gap between two columns."""
BAR = 40


class ProcessStatus(NamedTuple):
    """The state of one node's processes. `round` is None if it is unknown. `feed` is empty if no feed runs
    here.

    `warning` is the last warning of the node or its feed, with the time of day. `restarts` counts those of
    both.
    """

    name: str
    state: str
    round: int | None
    spent: str
    feed: str
    warning: str
    restarts: int


class RunStatus(NamedTuple):
    """The state of the mesh. Half of the nodes here have stepped `round`, which grows by `rate` per second.

    `slowest` is the name and the round of the slowest node. `gone`: seconds since the broker's last answer;
    None while it answers. `scheduler` is the state of the scheduler's process, `planning` its last warning.
    """

    round: int
    slowest: tuple[str, int]
    rate: float | None
    gone: float | None
    scheduler: str
    restarts: int
    planning: str
    rows: tuple[ProcessStatus, ...]


def run_picture(title: str, rounds: int | None, status: RunStatus, width: int) -> RenderableType:
    """Return the state of the mesh as a picture for a terminal.

    Its columns depend on the lengths of names alone.
    """
    parts: list[RenderableType] = [Text(title, "bold"), Text(head(rounds, status), "bold")]
    if rounds is not None:
        bar = Table.grid()
        bar.add_row(ProgressBar(rounds, min(status.round, rounds), width=min(width, BAR)))
        parts.append(bar)
    parts += [_one_line(trouble, "bold red") for trouble in broker(status)]
    parts.append(Text.assemble("scheduler ", (scheduler(status), _style(status.scheduler))))
    parts.append(_nodes(status.rows, rounds, width))
    warnings = [("scheduler", status.planning), *((row.name, row.warning) for row in status.rows)]
    parts += [_one_line(f"{process}: {warning}", "yellow") for process, warning in warnings if warning]
    # a spare line for the ^C that a terminal shows: in a full terminal it would scroll the picture
    return Group(*parts, Text())


class _Column(NamedTuple):
    """A column of a fixed width. Where the terminal is too narrow the last columns are left out."""

    heading: str
    width: int
    cells: list[Text]
    right: bool = False


def _nodes(rows: tuple[ProcessStatus, ...], rounds: int | None, width: int) -> Table:
    columns = [
        _Column(
            "node", min(NAME, max(4, *(len(row.name) for row in rows))), [Text(row.name) for row in rows]
        ),
        _Column("process", STATE, [Text(row.state, _style(row.state)) for row in rows]),
        _Column(
            "round", max(ROUND, len(f"{rounds or 0:,}")), [_number(row.round) for row in rows], right=True
        ),
        _Column("feed", STATE, [Text(row.feed, _style(row.feed)) for row in rows]),
        _Column("restarts", 8, [_number(row.restarts or None) for row in rows], right=True),
        _Column("epsilon of\nthe stream", 10, [Text(row.spent) for row in rows], right=True),
    ]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold")
    columns_shown: list[list[Text]] = []
    width_left = width
    for column in columns:
        width_left -= column.width + GAP
        if width_left < 0 and columns_shown:
            break
        justify: Literal["right", "left"] = "right" if column.right else "left"
        table.add_column(
            column.heading, justify=justify, no_wrap=True, width=column.width, overflow="ellipsis"
        )
        columns_shown.append(column.cells)
    for cells in zip(*columns_shown, strict=True):
        table.add_row(*cells)
    return table


def _number(number: int | None) -> Text:
    return Text("" if number is None else f"{number:,}")


def _one_line(text: str, style: str) -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _style(state: str) -> str:
    return WELL.get(state, "bold red")


# The state of a mesh and of its processes here in words, as `up` shows it.

WELL = {"running": "green", "starting": "yellow", "done": "cyan", "elsewhere": "dim", "": ""}
"""The colours of states without trouble."""


def head(rounds: int | None, status: RunStatus) -> str:
    """Return the median of the rounds, its speed, and the slowest node if it lags."""
    end = "" if rounds is None else f" of {rounds:,}"
    name, behind = status.slowest
    slowest = f"slowest: {name} at {behind:,}" if behind < status.round else ""
    return ", ".join(filter(None, (f"round {status.round:,}{end}", speed(status.rate), slowest)))


def broker(status: RunStatus) -> list[str]:
    """Return a line if the broker does not answer."""
    return [] if status.gone is None else [f"broker gone for {status.gone:,.0f} s"]


def scheduler(status: RunStatus) -> str:
    """Return the state of the scheduler's process, and how often it was restarted."""
    return (
        f"{status.scheduler}, {counted(status.restarts, 'restart')}" if status.restarts else status.scheduler
    )


PERIOD = 10.0
"""Seconds from one line to the next."""


class RunView(Protocol):
    """Shows the mesh. It is called repeatedly."""

    def __call__(self, status: RunStatus) -> None:
        """Show the state if it is time."""


@contextmanager
def shown(console: Console, title: str, rounds: int | None, *, plain: bool) -> Iterator[RunView]:
    """Yield the view that the console can show. `rounds` is None if the total is unknown."""
    if plain or not console.is_terminal:
        yield RunLines(console, rounds)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda status: live.update(run_picture(title, rounds, status, console.width), refresh=True)


class RunLines:
    """Prints a line every `PERIOD` seconds, and one for each new warning."""

    def __init__(self, console: Console, rounds: int | None) -> None:
        self._console, self._rounds, self._last = console, rounds, time.monotonic()
        self._warnings: dict[str, str] = {}

    def __call__(self, status: RunStatus) -> None:
        """Print a line if it is time."""
        now = time.monotonic()
        if now - self._last < PERIOD:
            return
        self._last = now
        say(self._console, run_line(self._rounds, status))
        warnings = {"scheduler": status.planning} | {f"node {row.name}": row.warning for row in status.rows}
        for process, warning in warnings.items():
            if warning and warning != self._warnings.get(process, ""):
                say(self._console, f"{process}: {warning}")
        self._warnings = warnings


def run_line(rounds: int | None, status: RunStatus) -> str:
    """Return the state of the mesh in one line."""
    parts = [head(rounds, status), *broker(status), f"scheduler {scheduler(status)}"]
    parts.append(f"nodes: {_states([row.state for row in status.rows])}{_again(status.rows)}")
    feeds = [row.feed for row in status.rows if row.feed]
    if feeds:
        parts.append(f"feeders: {_states(feeds)}")
    return "; ".join(parts)


def _again(rows: tuple[ProcessStatus, ...]) -> str:
    restarts = sum(row.restarts for row in rows)
    return f" ({counted(restarts, 'restart')})" if restarts else ""


def _states(states: list[str]) -> str:
    """Return the number of processes in each state."""
    kinds = [
        state if state in WELL else "silent" if state.startswith("silent") else "failing" for state in states
    ]
    return ", ".join(f"{kinds.count(kind):,} {kind}" for kind in dict.fromkeys(kinds))


def summary(rounds: int, seconds: float) -> str:
    """Return a sentence on the rounds that were seen."""
    if not rounds:
        return "No round was stepped."
    return f"{counted(rounds, 'round')} in {seconds:.1f} s, {rounds / max(seconds, 1e-3):,.0f} rounds/s."


# Shows one round: whom each node waited for.


def round_lines(story: OneRound) -> Iterator[str]:
    """Yield what happened in a round: its plan, who went on without whom, and for whom the others waited."""
    plan, nodes = story.plan, story.nodes
    kind = f"a closing round, {plan.closing - 1} after it" if plan.closing else "a round of learning"
    listeners = [node.node for node in nodes if not node.full]
    yield (
        f"round {plan.round}: {kind}; follows {plan.follows or 'none'}; {counted(len(nodes), 'member')}, "
        f"{counted(plan.sources.size, 'edge')}" + (f"; listening: {listed(listeners)}" if listeners else "")
    )
    waited_on: dict[str, list[str]] = {}
    for node in nodes:
        if node.awaited:
            yield f"{node.node} still waits for {listed(node.awaited)}"
        elif node.went_on is not None:
            for neighbour in node.given_up:
                yield f"{node.node} went on without {neighbour.source}, {_came(neighbour, node.went_on)}"
            if node.waited_for is not None:
                waited_on.setdefault(node.waited_for.source, []).append(node.node)
    for source, waiting in sorted(waited_on.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"{listed(waiting)} heard {source} last"


def round_table(story: OneRound) -> RenderableType:
    """Return a row for each member, in seconds from the first release of the round."""
    start = story.first or story.planned

    def after(moment: float | None) -> str:
        return "-" if moment is None else f"{moment - start:.2f}"

    rows = []
    for node in story.nodes:
        last, without = node.waited_for, [late.source for late in node.given_up] or node.awaited
        heard_last = ("-", "-") if last is None else (last.source, after(last.sent))
        rows.append((node.node, after(node.sent), *heard_last, after(node.went_on), listed(without) or "-"))
    headings = ("node", "sent", "heard last", "that came", "went on", "without")
    return table(headings, rows, "Seconds from the first release, each by its sender's own clock")


def _came(neighbour: Neighbour, went_on: float) -> str:
    if neighbour.sent is None:
        return "whose release is not in the log"
    seconds = neighbour.sent - went_on
    return f"whose release came {seconds:.2f} s later (within the horizon its error is corrected)"
