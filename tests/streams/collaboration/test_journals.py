"""The journals of owners and learner: what was appended is there, whatever kills the process."""

import subprocess
import sys
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.collaboration.messages import Answer, QueryRecord, RecordSet, ResponseRecord
from streams.collaboration.journals import LearnerJournal, OwnerJournal, RunParty
from streams.state.folder import JournalError
from streams.state.journal_file import JournalLocked, JournalReader

PARTY = RunParty("lending", "first", "bank-a", bytes(range(16)), '{"queries":3}')
LIFE = "aa" * 16
SET = RecordSet('{"source":{"kind":"csv"}}', (("bytes", 812),), 12000)
KINDS = {"owner": OwnerJournal, "learner": LearnerJournal}
kinds = pytest.mark.parametrize("kind", KINDS)


def answer(number, **changes):
    values = {
        "query": number,
        "asked": bytes([number % 256]) * 16,
        "response": np.array([0.1 * number, -1.0]),
    }
    values |= {"charged": number, "epsilon_spent": number / 100, "set": SET}
    return ResponseRecord(**(values | changes))


def asked(number, **changes):
    answers = tuple(
        Answer(f"bank-{name}", 32 * name, 1 / 3, np.array([0.1 * number, 0.3]))
        for name in "abc"
        if number > 1
    )
    values = {"number": number, "parameters": np.array([0.5, number]), "average": np.array([0.1, 0.2])}
    return QueryRecord(**(values | {"answers": answers, "missing": ("bank-d",)} | changes))


def record(kind, number, **changes):
    return (answer if kind == "owner" else asked)(number, **changes)


def opened(kind, path, party=PARTY, instance=LIFE):
    return KINDS[kind].opened(path, party, instance)


def records(journal):
    return journal.records if isinstance(journal, OwnerJournal) else journal.records()


def plain(value):
    """The value with arrays as bytes, so that it can be compared bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    return (type(value), *map(plain, value)) if isinstance(value, tuple) else value


@kinds
def test_what_was_appended_is_there_after_a_reopening(tmp_path, kind):
    with opened(kind, tmp_path / "j") as journal:
        assert records(journal) == ()
        for number in (1, 2, 5):
            journal.append(record(kind, number))
    with opened(kind, tmp_path / "j", instance="cc" * 16) as journal:
        assert (journal.instance, journal.copied) == (LIFE, False)
        assert plain(records(journal)) == plain(tuple(record(kind, number) for number in (1, 2, 5)))
    with KINDS[kind].read(tmp_path / "j") as journal:
        assert len(records(journal)) == 3
        with pytest.raises(JournalError, match="readonly"):
            journal.append(record(kind, 6))


def test_the_learners_last_records_are_read_alone(tmp_path):
    with opened("learner", tmp_path / "j") as journal:
        for number in range(1, 6):
            journal.append(asked(number))
        assert [one.number for one in journal.records(2)] == [4, 5]


reals = st.floats(allow_nan=False, allow_infinity=False)
vectors = st.lists(reals, min_size=1, max_size=6).map(np.array)
names = st.from_regex("[a-z0-9-]{1,9}", fullmatch=True)
counts = st.integers(0, 2**63 - 1)
owners = st.builds(
    answer,
    st.integers(1, 2**63 - 1),
    asked=st.binary(min_size=32, max_size=32),
    response=vectors,
    charged=counts,
    epsilon_spent=st.floats(0, allow_nan=False),
    set=st.builds(RecordSet, st.text(), st.lists(st.tuples(names, counts)).map(tuple), counts),
)
learners = st.builds(
    asked,
    st.integers(1, 2**63 - 1),
    parameters=vectors,
    average=vectors,
    answers=st.lists(st.builds(Answer, names, names, reals, vectors)).map(tuple),
    missing=st.lists(names).map(tuple),
)


@kinds
@settings(max_examples=30)
@given(data=st.data())
def test_any_record_comes_back_bit_for_bit_and_again_is_harmless(kind, data):
    kept = data.draw(owners if kind == "owner" else learners)
    with TemporaryDirectory() as folder, opened(kind, Path(folder) / "j") as journal:
        journal.append(kept)
        journal.append(kept)
        assert plain(records(journal)) == plain((kept,))


@kinds
def test_another_value_for_a_query_is_refused_and_nothing_changes(tmp_path, kind):
    changes = {"response": np.array([9.0, 9.0])} if kind == "owner" else {"parameters": np.array([9.0, 9.0])}
    with opened(kind, tmp_path / "j") as journal:
        journal.append(record(kind, 1))
        with pytest.raises(JournalError, match="query 1 has another"):
            journal.append(record(kind, 1, **changes))
        assert plain(records(journal)) == plain((record(kind, 1),))


def test_the_learners_record_with_other_answers_is_another(tmp_path):
    with opened("learner", tmp_path / "j") as journal:
        journal.append(asked(2))
        with pytest.raises(JournalError, match="query 2 has another"):
            journal.append(asked(2, answers=asked(2).answers[:-1]))


@pytest.mark.parametrize(
    "other", [SET._replace(records=11999), SET._replace(extent=(("bytes", 813),)), SET._replace(source="{}")]
)
def test_an_answer_of_another_set_is_refused(tmp_path, other):
    with opened("owner", tmp_path / "j") as journal:
        journal.append(answer(1))
        with pytest.raises(JournalError, match="another set"):
            journal.append(answer(2, set=other))
    with opened("owner", tmp_path / "j") as journal:
        with pytest.raises(JournalError, match="another set"):
            journal.append(answer(2, set=other))
        assert [one.query for one in journal.records] == [1]


@kinds
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"run": "second"}, "its run is first, not second"),
        ({"name": "bank-b"}, "its node is bank-a, not bank-b"),
        ({"mesh": "other"}, "its mesh is lending, not other"),
        ({"digest": bytes(16), "agreed": '{"queries":4}'}, "its queries is 3, not 4"),
    ],
)
def test_the_journal_of_another_is_refused(tmp_path, kind, changes, text):
    values = {name: getattr(PARTY, name) for name in PARTY.__dataclass_fields__}
    opened(kind, tmp_path / "j").close()
    with pytest.raises(JournalError, match=text):
        opened(kind, tmp_path / "j", RunParty(**(values | changes)))


@kinds
def test_each_kind_of_journal_is_for_its_own_process(tmp_path, kind):
    opened(kind, tmp_path / "j").close()
    other = next(name for name in KINDS if name != kind)
    with pytest.raises(JournalError, match=f"not the journal of a collaboration's {other}"):
        opened(other, tmp_path / "j")
    with pytest.raises(JournalError, match="not a node's journal"):
        JournalReader(tmp_path / "j")


@kinds
def test_a_copy_is_known_until_it_is_adopted(tmp_path, kind):
    with opened(kind, tmp_path / "j") as journal:
        journal.append(record(kind, 1))
    copyfile(tmp_path / "j", tmp_path / "copy")
    with opened(kind, tmp_path / "copy") as journal:
        assert journal.copied
        journal.adopt()
        assert not journal.copied
    with opened(kind, tmp_path / "copy") as journal:
        assert not journal.copied
        assert (journal.instance, len(records(journal))) == (LIFE, 1)


WRITE = """
import sys
from pathlib import Path
from tests.streams.collaboration.test_journals import opened, record, records

kind, path = sys.argv[1:]
journal = opened(kind, Path(path))
last = max((kept[0] for kept in records(journal)), default=0)
print("open", flush=True)
while True:
    last += 1
    journal.append(record(kind, last))
    print(last, flush=True)
"""


@kinds
def test_what_was_acknowledged_outlives_kill_9_and_a_second_process_is_turned_away(tmp_path, kind):
    acknowledged = 0
    for kill_after in (1, 17, 40):
        command = [sys.executable, "-c", WRITE, kind, str(tmp_path / "j")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "open\n"
            lines = [writer.stdout.readline() for _ in range(kill_after)]
            with pytest.raises(JournalLocked, match="another process"):
                opened(kind, tmp_path / "j")
            writer.kill()
            lines += writer.stdout.readlines()
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
        with opened(kind, tmp_path / "j") as journal:
            kept = records(journal)
        assert acknowledged <= len(kept) <= acknowledged + 1  # one more may be durable than was said
        assert plain(kept) == plain(tuple(record(kind, number) for number in range(1, len(kept) + 1)))
