"""Shows the state of a mesh: as a line, or as a picture in 80 columns."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streams.status.mesh_status import MeshStatus, NodeStatus
from streams.terminal.spending import learns_no_more, spent
from streams.terminal.text import counted, listed, speed

ROOM = 24
"""Columns for names and the picture of edges together; further nodes are only counted."""
NAME = 16
"""Longest name shown whole."""
NARROW = 60
"""Columns of a terminal below which edges and epsilon are left out, so that the rest stays whole."""
HELP = (
    ("round", "the last that the node says it has stepped"),
    ("hears", "its row of the graph, a column a node: ● the edge is on, ○ off, - itself"),
    ("epsilon", "spent on the whole stream: at most that of this run, by all plans so far, of its budget"),
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


def line(status: MeshStatus) -> str:
    """Return the state of the mesh in one line."""
    return "; ".join([*_facts(status), *_flags(status.rows), *_ended(status.rows)])


def picture(title: str, trouble: str, status: MeshStatus, height: int, width: int = 80) -> RenderableType:
    """Return the state of the mesh in `height` lines of `width` columns; `trouble`: why it may be old.

    Unusual states are shown even of nodes without a line.
    """
    head = [_one_line("   ".join(_facts(status)), "bold")]
    if trouble:
        head.append(_one_line(trouble, "bold red"))
    room = max(0, height - len(head) - 3)  # without the title and two lines of headings
    if room >= len(status.rows):
        return Group(_title(title), *head, nodes(status, len(status.rows), width))
    row_count = max(0, room - 1)
    rest = status.rows[row_count:]
    more = _one_line("; ".join([f"{len(rest)} more, for a higher terminal", *_flags(rest)]), "bold")
    return Group(_title(title), *head, nodes(status, row_count, width), more)


def nodes(status: MeshStatus, shown: int, width: int = 80) -> Table:
    """Return the first nodes by row, with a picture of the edges if it fits."""
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
    """Return an explanation of the picture's words."""
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


def _one_line(text: str, style: str) -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _flags(rows: Sequence[NodeStatus]) -> list[str]:
    """Return nodes in unusual states, by flag: absent ones first."""
    flags: dict[str, list[str]] = {}
    for row in rows:
        for flag in row.flags:
            flags.setdefault(flag, []).append(row.name)
    worst = sorted(flags, key=lambda flag: _LAST.get(flag, 0))
    return [f"{flag}: {listed(flags[flag])}" for flag in worst]


def _unused(row: NodeStatus) -> list[str]:
    return [f"{counted(row.unused, 'round')} unused"] if row.unused else []


def _ended(rows: Sequence[NodeStatus]) -> list[str]:
    """Return a sentence on each node that learns no more with a rest of its budget."""
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
