"""The words and the picture: 80 columns hold them, whatever they say."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from streams.status.mesh_status import MeshStatus, NodeStatus
from streams.terminal.live_views import HELP, explained, mesh_line, mesh_picture

NAMES = ("east", "west", "north")
ROWS = (
    NodeStatus("east", 41, frozenset({"west"}), ("north", "west"), 41.0, 60.0, 0.4, ("relaying",)),
    NodeStatus(
        "west", 40, frozenset({"east", "north"}), ("east", "north"), 40.0, 60.0, 12.0, ("silent", "7 behind")
    ),
    NodeStatus("north", None, frozenset(), ("west",), 0.0, None, None, ("never seen",)),
)
SIGHT = MeshStatus(40, 2000, 72, 32, 12.4, 2, False, ROWS)


def printed(thing, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(thing)
    return console.file.getvalue().splitlines()


def test_a_picture_shows_nodes_and_edges():
    title, head, _, columns, *rows = [
        text.rstrip() for text in printed(mesh_picture("tracking, run r", "", SIGHT, 24))
    ]
    assert title.startswith("tracking, run r ")
    assert title.endswith("h help  q quit")
    assert head == "round 40 of 2,000   12 rounds/s   32 planned ahead   2 of 3 nodes live"
    assert columns.split() == ["node", "round", "123", "the", "stream", "seen"]
    assert rows == [
        "1  east      41  -●○      41 of 60   0 s  relaying",
        "2  west      40  ●-●      40 of 60  12 s  silent, 7 behind",
        "3  north          ○-             0        never seen",
    ]


def test_trouble_and_the_end_of_the_run_are_said():
    text = "\n".join(printed(mesh_picture("tracking", "no answer", SIGHT._replace(over=True), 24)))
    assert "no answer" in text
    assert "the run is over" in text


def test_a_line_tells_the_whole_and_who_is_out_of_the_ordinary():
    assert mesh_line(SIGHT) == (
        "round 40 of 2,000; 12 rounds/s; 32 planned ahead; 2 of 3 nodes live; silent: west; "
        "never seen: north; 7 behind: west; relaying: east"
    )
    assert mesh_line(SIGHT._replace(rounds=None)).startswith("round 40; ")
    assert mesh_line(SIGHT._replace(rate=None)).startswith("round 40 of 2,000; 32 planned ahead; ")
    assert "; 0.25 rounds/s; " in mesh_line(SIGHT._replace(rate=0.25))


def test_a_rest_of_a_budget_is_said():
    rest = SIGHT._replace(rows=(ROWS[0]._replace(learnt_until=2500, unused=1017), *ROWS[1:]))
    said = "east learns no more since round 2,500; at least 1,017 rounds of its budget were not used"
    assert mesh_line(rest).endswith(said)
    assert "relaying, 1,017 rounds unused" in "\n".join(printed(mesh_picture("t", "", rest, 24)))


def test_help_tells_of_every_flag_and_fits_a_screen():
    lines = printed(explained("tracking"))
    assert len(lines) <= 24
    text = " ".join(word for word, _ in HELP) + " ".join(lines)
    for flag in (
        "silent",
        "joining",
        "listener",
        "leaving",
        "left",
        "relaying",
        "simulated",
        "behind",
        "ahead",
        "two values",
        "dead letters",
        "refused",
    ):
        assert flag in text


def test_on_a_narrow_terminal_names_rounds_and_flags_stay_whole():
    lines = [text.rstrip() for text in printed(mesh_picture("tracking", "", SIGHT, 24, 40), 40)]
    assert lines[-3:] == [
        "1  east      41   0 s  relaying",
        "2  west      40  12 s  silent, 7 behind",
        "3  north               never seen",
    ]


rows = st.builds(
    lambda name, stepped, spent, budget, seen, flags: NodeStatus(
        name, stepped, frozenset(), ("b", "c"), spent, budget, seen, tuple(flags)
    ),
    st.integers(1, 60).map(lambda length: "n" * length),
    st.none() | st.integers(0, 1 << 30),
    st.floats(0, 1e9) | st.just(float("inf")),
    st.none() | st.floats(1e-9, 1e6),
    st.none() | st.floats(0, 1e7),
    st.lists(
        st.sampled_from(["silent", "relaying", "simulated", "1,000,000 behind", "listener"]), unique=True
    ),
)


@settings(max_examples=30)
@given(st.lists(rows, min_size=1, max_size=8), st.sampled_from(["", "w", "w" * 200]))
def test_a_node_takes_one_line_of_80_columns(rows, words):
    lines = printed(
        mesh_picture(words, words, MeshStatus(3, 10**9, 9, 9, 1e6, len(rows), False, tuple(rows)), 24)
    )
    first = 3 + bool(words)
    assert len(lines) == first + 1 + len(rows)
    assert max(map(len, lines)) <= 80
    for number, row in enumerate(rows, 1):
        shown = lines[first + number].split()
        assert shown[0] == str(number)
        assert shown[1].rstrip("…") == row.name[: len(shown[1].rstrip("…"))]
        if row.stepped is not None:
            assert f"{row.stepped:,}" in lines[first + number]


@pytest.mark.parametrize(("size", "drawn"), [(20, True), (21, False)])
def test_edges_are_drawn_where_there_is_room_and_counted_elsewhere(size, drawn):
    names = [f"n-{k:02}" for k in range(size)]
    rows = tuple(NodeStatus(n, 1, frozenset(names[:1]), tuple(names[:2]), 1.0, None, 1.0, ()) for n in names)
    lines = printed(mesh_picture("t", "", SIGHT._replace(rows=rows), 40))
    assert ("●○" in lines[-1]) == drawn
    assert ("1 of 2" in lines[-1]) != drawn


def test_a_long_round_is_shown_whole_beside_what_is_longer():
    long = ROWS[0]._replace(name="n" * 15, stepped=123_456_789, spent=1_899_401.0, budget=5.96e-8, seen=1e6)
    assert "123,456,789" in printed(mesh_picture("t", "", SIGHT._replace(rows=(long, *ROWS[1:] * 3)), 24))[4]


@pytest.mark.parametrize("trouble", ["", "no answer"])
@pytest.mark.parametrize("height", range(5, 12))
def test_a_low_terminal_shows_the_trouble_and_tells_of_the_nodes_that_it_has_no_line_for(height, trouble):
    rows = tuple(ROWS[0]._replace(name=f"n-{k}") for k in range(5)) + ROWS[1:]
    lines = [text.rstrip() for text in printed(mesh_picture("t", trouble, SIGHT._replace(rows=rows), height))]
    assert (lines[2] == trouble) == bool(trouble)
    table = lines[4 + bool(trouble) :]
    numbers = [int(text.split()[0]) for text in table if "more, for" not in text]
    room = height - 4 - bool(trouble)
    if room >= len(rows):
        assert numbers == list(range(1, 8))
        return
    assert len(lines) == max(height, 5 + bool(trouble))
    assert numbers == list(range(1, room))
    hidden = 7 - len(numbers)
    assert lines[-1].startswith(f"{hidden} more, for a higher terminal; silent: west; never seen: north; ")


def test_a_line_for_the_owner_stands_in_the_head():
    lines = printed(mesh_picture("t", "", SIGHT, 24, owner="Malformed records: a 3 of 9 (not JSON)."))
    assert lines[2].strip() == "Malformed records: a 3 of 9 (not JSON)."
    assert len(lines) == len(printed(mesh_picture("t", "", SIGHT, 24))) + 1
