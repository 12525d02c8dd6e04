import itertools
import math
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from nodes.accounting.spends import TIME, Data, Span, Spend
from nodes.machine.journal import JournalRecord
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalReader
from streams.state.spends import (
    Damaged,
    all_spends,
    fed_data,
    from_line,
    keep_fed,
    keep_spends,
    put_aside,
    read_spends,
    to_line,
    write_spends,
)
from tests.support.nodes.spends import earlier_spends

SPEND = Spend("r1", 7, Fraction(1, 3), 1e-6, 2.5, 1e-6, (Span("0", 3, 10), Span("1")), open=True, node="east")


def journal(folder, run, charged, *, node="east", end=40, name=None, life="aa" * 16):
    """The journal of a life that has stepped `charged` rounds."""
    path = folder / (name or f"{node}.journal")
    made = SqliteJournal(path, run=run, node=node, digest=bytes(16), instance=life, horizon=4)
    with made:
        made.append(
            JournalRecord(
                round=charged + 1,
                stepped=charged,
                release=np.zeros(2),
                exact=False,
                charged=made.carried + charged,
                epsilon_spent=float(charged),
                data_position=((0, end),),
                topology_position=0,
                edge_positions=(),
                given_up=(),
                corrected=(),
            )
        )
    return path


def test_a_spend_is_read_as_it_was_kept(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    assert read_spends(path) == ()
    bare = Spend("r2", 1, None, 0.0, math.inf, 0.0, node="east")
    keep_spends(path, SPEND)
    keep_spends(path, bare)
    assert read_spends(path) == (SPEND, bare)
    assert [file.name for file in tmp_path.iterdir()] == ["east.spends"]


def test_a_run_that_goes_on_keeps_its_beginning_and_its_charges(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    keep_spends(path, SPEND._replace(spans=(Span("0", 3),)))
    keep_spends(path, SPEND._replace(spans=(Span("0", 20, 30),), charged=5, stream_epsilon=1.0, open=False))
    (kept,) = read_spends(path)
    assert (kept.spans, kept.charged, kept.stream_epsilon, kept.open) == ((Span("0", 3, 30),), 7, 2.5, False)


def test_another_runs_journal_is_written_down_and_put_aside(tmp_path):
    path = journal(tmp_path, "r1", 12)
    assert put_aside(tmp_path, "east", "r1") is None
    aside = put_aside(tmp_path, "east", "r2")
    assert aside == tmp_path / "east.r1.journal"
    assert not path.exists()
    with JournalReader(aside) as found:
        assert found.charged == 12
    (kept,) = read_spends(StateFolder(tmp_path).spends("east"))
    assert (kept.run, kept.charged, kept.spans, kept.open) == ("r1", 12, (Span("0", end=40),), False)
    assert (kept.epsilon, kept.stream_epsilon) == (None, math.inf)  # the price: nobody wrote it down
    journal(tmp_path, "r2", 1)  # a new run may begin
    assert put_aside(tmp_path, "east", "r2") is None


def test_what_was_written_down_at_the_start_knows_the_price_and_the_journal_how_far_it_got(tmp_path):
    who = {"node": "east", "before": 3, "reuse": "end", "life": "aa" * 16}
    opened = Spend("r1", 0, Fraction(1, 2), 0.0, 0.0, 0.0, (Span("0", 5),), open=True, **who)
    keep_spends(StateFolder(tmp_path).spends("east"), opened)
    journal(tmp_path, "r1", 12)  # killed: nobody has closed the line
    spans = (Span("0", 5, 40),)
    expected = Spend("r1", 12, Fraction(1, 2), 0.0, 12.0, 0.0, spans, **who)
    assert earlier_spends(tmp_path, "east", "r2") == (expected,)
    assert earlier_spends(tmp_path, "east", "r1") == ()
    put_aside(tmp_path, "east", "r2")
    assert (
        earlier_spends(tmp_path, "east", "r2")
        == read_spends(StateFolder(tmp_path).spends("east"))
        == (expected,)
    )


def test_every_journal_of_another_run_in_the_folder_counts(tmp_path):
    journal(tmp_path, "r0", 3, name="east.r0.journal")
    journal(tmp_path, "r1", 4, name="east.old.journal")
    journal(tmp_path, "r1", 9, node="east-2")
    found = {spend.run: spend.charged for spend in earlier_spends(tmp_path, "east", "r2")}
    assert found == {"r0": 3, "r1": 4}


def test_a_node_whose_name_begins_like_anothers_is_not_that_one(tmp_path):
    journal(tmp_path, "r0", 3, node="n1", name="n1.r0.journal")
    journal(tmp_path, "r1", 4, node="n1")
    for other in ("n10", "n1-2", "n"):
        (tmp_path / f"{other}.journal").write_bytes(b"of no concern to n1")
        (tmp_path / f"{other}.r0.journal").write_bytes(b"of no concern to n1")
    assert [spend.charged for spend in all_spends(tmp_path, "n1")] == [3, 4]


def test_spends_are_for_their_owner_alone(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    write_spends(path, ())
    path.chmod(0o644)
    keep_spends(path, SPEND)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


LARGEST = Spend(
    "r1",
    charged=70,
    epsilon=Fraction(1, 2),
    delta=1e-6,
    stream_epsilon=35.0,
    stream_delta=1e-6,
    spans=(Span("0", 3, 10), Span(TIME)),
    before=2,
    reuse="reused",
    mesh="m",
    folder="f" * 32,
    life="a" * 32,
    settings=(("mechanism", "laplace"),),
    node="east",
    data=(Data("/records.csv", "1:2", "9:9", "data.east", "id", "cluster", '{"kind": "csv"}'),),
    apart=("east/r0/" + "b" * 32,),
    turn=3,
)


def flipped(content):
    """The content with each of its bits flipped, one at a time."""
    for place, bit in itertools.product(range(len(content)), range(8)):
        yield place, content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def test_every_flipped_bit_of_a_line_is_found():
    line = to_line(LARGEST).encode()
    assert from_line(line.decode()) == LARGEST
    for _, damaged in flipped(line):
        with pytest.raises(Damaged, match="its checksum does not fit"):
            from_line(damaged.decode("latin-1"))


def test_every_flipped_bit_of_a_file_is_found_and_its_line_named(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    write_spends(path, [SPEND, LARGEST])
    content = path.read_bytes()
    lines = content.decode().split("\n")
    for place, damaged in flipped(content):
        path.write_bytes(damaged)
        with pytest.raises(JournalError) as found:
            read_spends(path)
        number = content[:place].count(b"\n") + 1
        # a line break that is gone joins two lines; one that is new parts a line
        assert re.search(
            rf"line ({number - 1}|{number}|{len(lines) - 1}|{len(lines)}|{len(lines) - 2})\b",
            str(found.value),
        )
        assert "is not known" in str(found.value)


def test_lines_that_are_missing_twice_there_or_in_another_order_are_found(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    write_spends(path, [SPEND, LARGEST])
    head, one, two, last, _ = path.read_text().split("\n")
    for lines in ([one], [two], [], [two, one], [one, one, two], [one, two, two]):
        path.write_text("\n".join([head, *lines, last, ""]))
        with pytest.raises(JournalError, match="the last one, is missing or damaged"):
            read_spends(path)
    for cut in ("", head, f"{head}\n{one}\n{two}\n", f"{head}\n{one}"):
        path.write_text(cut)
        with pytest.raises(JournalError, match="is not known"):
            read_spends(path)


def test_a_file_of_before_is_refused_in_one_line(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    path.write_text('{"run": "r1", "charged": 7, "epsilon": "1/3", "delta": 0.0}\n')
    with pytest.raises(JournalError, match="line 1 is not 'mirrormesh spends 1', it is of another version"):
        read_spends(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": Fraction(-5)},
        {"delta": math.nan},
        {"delta": None},
        {"stream_epsilon": -1.0},
        {"stream_delta": "0"},
        {"charged": -9},
        {"charged": "7"},
        {"before": True},
        {"open": 1},
        {"reuse": "none"},
        {"life": 7},
        {"turn": -1},
        {"data": (Data(path=7),)},
        {"spans": (Span(0, 1, 2),)},
    ],
)
def test_what_no_life_can_have_spent_is_damage_and_lowers_nothing(tmp_path, wrong):
    path = StateFolder(tmp_path).spends("east")
    write_spends(path, [SPEND._replace(**wrong)])
    with pytest.raises(JournalError, match="line 2 is damaged, it says what no life can have spent"):
        read_spends(path)


def test_nothing_is_forgotten_silently(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    path.write_text('{"run": "r1"}\n')
    with pytest.raises(JournalError, match="damaged: what earlier runs have spent is not known"):
        read_spends(path)
    with pytest.raises(JournalError, match="damaged"):
        keep_spends(path, SPEND)
    path.unlink()
    (tmp_path / "east.journal").write_bytes(b"no journal")
    with pytest.raises(JournalError):
        put_aside(tmp_path, "east", "r2")
    (tmp_path / "east.journal").unlink()


def test_of_one_run_any_number_of_journals_is_put_aside(tmp_path):
    for charged, name in ((1, "east.r1.journal"), (2, "east.r1.2.journal"), (4, "east.r1.3.journal")):
        journal(tmp_path, "r1", charged, life=f"{charged:032x}")
        assert put_aside(tmp_path, "east", "r2") == tmp_path / name
    assert not (tmp_path / "east.journal").exists()
    journal(tmp_path, "r2", 8)
    assert sorted(spend.charged for spend in earlier_spends(tmp_path, "east", "r2")) == [1, 2, 4]
    StateFolder(tmp_path).spends("east").unlink()
    assert sorted(spend.charged for spend in all_spends(tmp_path, "east")) == [1, 2, 4, 8]


def test_what_a_feed_and_a_node_write_at_the_same_time_is_all_kept(tmp_path):
    """`feed` writes a line while the node's process may write its own: none replaces the other's file."""
    path, fed_files = StateFolder(tmp_path).spends("east"), [Data(path=f"/{number}") for number in range(40)]
    spends = [SPEND._replace(life=f"{number:032x}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        writing = [pool.submit(keep_spends, path, spend) for spend in spends]
        writing += [pool.submit(keep_fed, tmp_path, "east", data) for data in fed_files]
        for write in writing:
            write.result(timeout=60)
    assert set(read_spends(path)) == set(spends)
    assert set(fed_data(tmp_path, "east")) == set(fed_files)
