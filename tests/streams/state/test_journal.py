import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.machine.journal import GivenUp, JournalRecord
from nodes.values import Average
from streams.state.folder import JournalError
from streams.state.journal import MemoryJournal, SqliteJournal
from streams.state.journal_file import SCHEMA, JournalLocked, JournalReader

DIGEST = bytes(range(16))
OWNER = {"run": "run-1", "node": "east", "digest": DIGEST, "instance": "aa" * 16, "horizon": 4}


def record(number, **changes):
    values = {
        "round": number,
        "stepped": number - 1,
        "release": np.array([0.1 * number, -1.0]),
        "exact": False,
        "charged": number,
        "epsilon_spent": 1.0,
        "data_position": ((0, number), (3, 7)),
        "topology_position": 10 * number,
        "edge_positions": (("north", 5), ("west", 6)),
        "given_up": (GivenUp("west", "bb" * 16, 1 / 3),),
        "corrected": ((number - 1, "north"),),
        "average": Average(number, np.array([0.1, -0.2 * number])),
    }
    return JournalRecord(**(values | changes))


def as_bytes(average):
    return average and (average.rounds, average.mean.tobytes())


def same(one, other):
    arrays = {"release", "average"}
    return (
        one.release.tobytes() == other.release.tobytes()
        and as_bytes(one.average) == as_bytes(other.average)
        and all(getattr(one, name) == getattr(other, name) for name in set(JournalRecord._fields) - arrays)
    )


def opened(path, **changes):
    return SqliteJournal(path, **(OWNER | changes))


def of_kind(kind, folder):
    """A journal in a file, or one in memory."""
    return opened(folder / "j") if kind == "file" else closing(MemoryJournal("aa" * 16, 4))


def rounds(journal):
    return [kept.round for kept in journal.records()]


def test_what_was_appended_is_there_after_a_reopening(tmp_path):
    with opened(tmp_path / "j") as journal:
        assert (journal.records(), journal.charged) == ((), 0)
        for number in (1, 2, 5):
            journal.append(record(number))
    with opened(tmp_path / "j", instance="cc" * 16) as journal:
        assert journal.instance == "aa" * 16
        assert journal.charged == 5
        kept = journal.records()
        assert [one.round for one in kept] == [1, 2, 5]
        assert all(same(one, record(one.round, average=None)) for one in kept[:-1])
        assert same(kept[-1], record(5))
        assert type(kept[0].given_up[0]) is GivenUp


counts = st.integers(0, 2**63 - 1)
names = st.from_regex("[a-z0-9-]{1,9}", fullmatch=True)
reals = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60)
@given(
    st.builds(
        record,
        st.integers(1, 2**63 - 1),
        release=st.lists(reals, min_size=1, max_size=6).map(np.array),
        exact=st.booleans(),
        charged=counts,
        epsilon_spent=st.floats(0, allow_nan=False),
        data_position=st.none() | st.lists(st.tuples(counts, counts)).map(tuple),
        topology_position=counts,
        edge_positions=st.lists(st.tuples(names, counts)).map(tuple),
        given_up=st.lists(st.builds(GivenUp, names, names, reals)).map(tuple),
        corrected=st.lists(st.tuples(counts, names)).map(tuple),
        distrusted=st.lists(st.tuples(names, names)).map(tuple),
        pardoned=st.lists(st.tuples(names, names, counts)).map(tuple),
    )
)
def test_any_record_comes_back(kept):
    with TemporaryDirectory() as folder, opened(Path(folder) / "j") as journal:
        journal.append(kept)
        assert same(journal.records()[0], kept)
        journal.append(kept)
        assert len(journal.records()) == 1


def test_a_pardon_changes_the_last_record_alone(tmp_path):
    bad = (("north", "b" * 32), ("west", "c" * 32), ("west", "d" * 32))
    with opened(tmp_path / "j") as journal:
        assert journal.pardon("west") == ()
        journal.append(record(1, distrusted=bad))
        journal.append(record(2, distrusted=bad))
        assert journal.pardon("west") == ("c" * 32, "d" * 32)
        assert journal.pardon("west") == ()
    with opened(tmp_path / "j") as journal:
        first, last = journal.records()
        assert same(first, record(1, distrusted=bad, average=None))
        forgiven = (("west", "c" * 32, 10), ("west", "d" * 32, 10))
        assert same(last, record(2, distrusted=bad[:1], pardoned=forgiven))
        journal.append(record(3))


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_only_the_newest_average_is_kept(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        for number in range(1, 12):
            journal.append(record(number))
            *older, newest = journal.records()
            assert as_bytes(newest.average) == as_bytes(record(number).average)
            assert [one.average for one in older] == [None] * len(older)
        journal.append(record(12, average=None))
        assert [one.average for one in journal.records()] == [None] * 5


def test_a_journal_is_as_large_as_its_releases_and_one_average(tmp_path):
    dimension, vectors = 20_000, 9 + 1  # at most 2H + 1 releases
    with opened(tmp_path / "j") as journal:
        for number in range(1, 30):
            values = np.full(dimension, number / 3)
            journal.append(record(number, release=values, average=Average(number, values)))
    size = (tmp_path / "j").stat().st_size
    assert vectors * 8 * dimension < size < (vectors + 1) * 8 * dimension


def test_the_last_rounds_are_kept(tmp_path):
    with opened(tmp_path / "j") as journal:
        for number in range(1, 30):
            journal.append(record(number))
            assert rounds(journal) == list(range(max(1, number - 4), number + 1))  # H + 1
            count = journal._connection.execute("SELECT count(*) FROM records").fetchone()[0]
            assert count == (number if number < 9 else 5 + (number - 9) % 4)


def test_old_rounds_are_forgotten_after_a_reopening_too(tmp_path):
    for number in range(1, 30):
        with opened(tmp_path / "j") as journal:
            journal.append(record(number))
            assert journal._connection.execute("SELECT count(*) FROM records").fetchone()[0] < 9


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_the_same_again_is_harmless_and_another_value_is_not(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        for number in (1, 2, 4):
            journal.append(record(number))
        journal.append(record(4))
        journal.append(record(1))
        changes = (
            {"release": np.array([0.4, -1.0 + 2**-52])},
            {"charged": 9},
            {"exact": True},
            {"given_up": ()},
            {"data_position": None},
            {"average": Average(4, np.array([0.1, -0.7]))},
        )
        for change in changes:
            with pytest.raises(JournalError, match="round 4"):
                journal.append(record(4, **change))
        with pytest.raises(JournalError, match="round 3"):
            journal.append(record(3))
        assert rounds(journal) == [1, 2, 4]
        assert same(journal.records()[-1], record(4))


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_forgotten_round_cannot_be_written_again(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        for number in range(1, 20):
            journal.append(record(number))
        with pytest.raises(JournalError, match="round 1 "):
            journal.append(record(1))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"run": "run-2"}, "its run is run-1, not run-2"),
        ({"node": "west"}, "its node is east, not west"),
        ({"digest": bytes(16)}, "its digest is 000102.*, not 0000"),
        ({"horizon": 8}, "its horizon is 4, not 8"),
    ],
)
def test_another_ones_journal_is_refused(tmp_path, changes, text):
    opened(tmp_path / "j").close()
    with pytest.raises(JournalError, match=text) as refusal:
        opened(tmp_path / "j", **changes)
    assert str(tmp_path / "j") in str(refusal.value)
    opened(tmp_path / "j").close()  # and the lock is free again


def test_a_second_writer_is_turned_away(tmp_path):
    with opened(tmp_path / "j") as journal:
        with pytest.raises(JournalLocked, match=r"j\.lock"):
            opened(tmp_path / "j")
        journal.append(record(1))
    opened(tmp_path / "j").close()


def test_a_reader_gets_in_beside_the_writer_and_after_it(tmp_path):
    with opened(tmp_path / "j") as journal, JournalReader(tmp_path / "j") as reader:
        journal.append(record(1))
        assert rounds(reader) == [1]
        journal.append(record(2))
        assert (rounds(reader), reader.charged, reader.instance) == ([1, 2], 2, "aa" * 16)
        assert (reader.life.run, reader.life.node, reader.life.digest) == ("run-1", "east", DIGEST)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM records")
    with JournalReader(tmp_path / "j") as reader:
        assert rounds(reader) == [1, 2]


def test_a_reader_makes_no_file(tmp_path):
    with pytest.raises(JournalError, match="unable to open"):
        JournalReader(tmp_path / "j")
    assert not list(tmp_path.iterdir())


def test_a_new_life_has_no_records_and_another_instance_and_keeps_what_was_charged(tmp_path):
    with opened(tmp_path / "j") as journal:
        journal.append(record(7))
        journal.renew("cc" * 16)
        assert (journal.instance, journal.records(), journal.charged) == ("cc" * 16, (), 7)
        assert journal._connection.execute("SELECT count(*) FROM average").fetchone() == (0,)
        journal.append(record(3))
    with opened(tmp_path / "j") as journal:
        assert (journal.instance, rounds(journal)) == ("cc" * 16, [3])


def test_settings_that_make_it_durable_are_on(tmp_path):
    with opened(tmp_path / "j") as journal:
        pragmas = [
            journal._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert pragmas == ["wal", 2]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_an_empty_file_is_a_new_journal_but_not_to_a_reader(tmp_path):
    (tmp_path / "j").touch()
    with pytest.raises(JournalError, match="empty"):
        JournalReader(tmp_path / "j")
    with opened(tmp_path / "j") as journal:
        journal.append(record(1))


def test_files_of_others_are_refused_and_left_alone(tmp_path):
    (tmp_path / "text").write_text("this is no journal, and long enough to be looked at\n" * 50)
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    opened(tmp_path / "new").close()
    connection = sqlite3.connect(tmp_path / "new")
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    for name, text in (
        ("text", "not a database"),
        ("other", "another program"),
        ("new", f"version {SCHEMA + 1}, this program reads {SCHEMA}"),
    ):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(JournalError, match=text):
            opened(tmp_path / name)
        with pytest.raises(JournalError, match=text):
            JournalReader(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_another_average_of_a_round_is_another_record(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        journal.append(record(1, average=None))
        assert journal.records()[0].average is None
        with pytest.raises((JournalError, ValueError)):
            journal.append(record(1))


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(JournalError, match="No such file"):
        opened(tmp_path / "missing" / "j")


def test_a_broken_file_is_an_error_and_nothing_else(tmp_path):
    path = tmp_path / "j"
    with opened(path) as journal:
        for number in range(1, 8):
            journal.append(record(number, release=np.arange(100.0) * number))
    good = path.read_bytes()
    chance = np.random.Generator(np.random.Philox(7))
    refused = 0
    for _ in range(300):
        broken = bytearray(good)
        at = int(chance.integers(len(good)))
        broken[at : at + 64] = chance.bytes(64)
        path.write_bytes(bytes(broken)[: len(good)])
        try:
            with opened(path) as journal:
                journal.records()
                check = journal._connection.execute("PRAGMA integrity_check").fetchall()
            assert check == [("ok",)]
        except JournalError:
            refused += 1
    assert refused > 10
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(JournalError):
        opened(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET release = '123'",
        "UPDATE records SET release = x'010203'",
        "UPDATE records SET positions = '{'",
        "UPDATE records SET positions = '[1]'",
        "UPDATE records SET positions = '[1,2,3,4,5,6]'",
        "UPDATE average SET mean = x'010203'",
    ],
)
def test_a_record_that_cannot_be_read_is_an_error(tmp_path, change):
    with opened(tmp_path / "j") as journal:
        journal.append(record(1))
        journal._connection.execute(change)
        with pytest.raises(JournalError, match="a record cannot be read"):
            journal.records()


@pytest.mark.parametrize("change", ["DELETE FROM life", "UPDATE life SET digest = 'text'", "DROP TABLE life"])
def test_a_journal_that_does_not_say_whose_it_is_is_an_error(tmp_path, change):
    with opened(tmp_path / "j") as journal:
        journal._connection.execute(change)
    for attempt in (opened, JournalReader):
        with pytest.raises(JournalError, match=r"whose it is|no such table"):
            attempt(tmp_path / "j")


def test_an_append_that_fails_says_so_and_changes_nothing(tmp_path):
    with opened(tmp_path / "j") as journal:
        journal.append(record(1))
        journal._connection.execute("PRAGMA max_page_count = 4")
        with pytest.raises(JournalError, match="full"):
            journal.append(record(2, release=np.ones(100_000)))
        assert rounds(journal) == [1]
        journal.append(record(2))
        assert rounds(journal) == [1, 2]


def test_a_closed_journal_takes_nothing(tmp_path):
    journal = opened(tmp_path / "j")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append(record(1))


def test_a_journal_in_memory_keeps_h_rounds_and_begins_anew():
    journal = MemoryJournal("aa" * 16, 4)
    assert (journal.records(), journal.charged) == ((), 0)
    for number in range(1, 10):
        journal.append(record(number))
    assert rounds(journal) == [5, 6, 7, 8, 9]
    assert journal.charged == 9
    journal.renew("bb" * 16)
    assert (journal.instance, journal.records()) == ("bb" * 16, ())
    journal.append(record(2))
    assert rounds(journal) == [2]
