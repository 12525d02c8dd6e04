"""Whatever becomes of runs, lives and folders: what is added up is never less than what was spent."""

import shutil
import tempfile
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.accounting.reuse import total
from nodes.machine.journal import JournalRecord
from streams.mesh.mesh import Mesh
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import SqliteJournal
from streams.state.spends import all_spends, put_aside, read_spends, write_spends
from tests.support.nodes.accounts import mesh_file
from tests.support.nodes.spends import begin_spend, end_spend, reuse_of

PRICES = (1, 2, 5)


class Folder:
    """A state folder in which node a lives, and what its records have truly paid, as far as it can know."""

    def __init__(self, state, meshes, paid=None, stream=0):
        self.state, self.meshes = state, meshes
        self.paid, self.stream = Counter(paid or {}), stream
        self.run, self.ids = 1, count(1)
        self.price = 0
        self.journal = None

    @property
    def mesh(self):
        made = self.meshes[self.price]
        return made.model_copy(update={"run": f"run-{self.run}"})

    def begin(self):
        """Start a process."""
        if self.journal is not None:
            return
        put_aside(self.state, "a", self.mesh.run)
        self.journal = SqliteJournal(
            self.state / "a.journal",
            run=self.mesh.run,
            node="a",
            digest=self.mesh.digest(),
            instance=f"{np.random.default_rng().integers(1 << 62):032x}",
            horizon=4,
            mesh=self.mesh.name,
            price=Mesh(self.mesh).node("a").price,
        )
        begin_spend(self.state, Mesh(self.mesh), "a", self.last, ())

    @property
    def last(self):
        records = self.journal.records(1)
        return records[-1] if records else None

    def learn(self, rounds):
        """Charge rounds, a record each, from the first that this life has not read."""
        self.begin()
        for _ in range(rounds):
            last = self.last
            position = last.data_position[0][1] if last else 0
            charged = self.journal.charged + 1
            self.paid[position] += PRICES[self.price]
            self.stream += PRICES[self.price]
            self.journal.append(
                JournalRecord(
                    (last.round if last else 0) + 1,
                    last.round if last else 0,
                    np.zeros(2),
                    False,
                    charged,
                    float(charged * PRICES[self.price]),
                    ((0, position + 1),),
                    0,
                    (),
                    (),
                    (),
                )
            )

    def end(self):
        """End in order."""
        self.begin()
        end_spend(self.state, Mesh(self.mesh), "a", self.last)
        self.kill()

    def kill(self):
        """End the process here and now."""
        if self.journal is not None:
            self.journal.close()
        self.journal = None

    def lose(self):
        """Lose the journal."""
        self.kill()
        (self.state / "a.journal").unlink(missing_ok=True)

    def next_run(self, price):
        """Begin another run, at another price."""
        self.kill()
        self.run, self.price = self.run + 1, price

    def lost_log(self):
        """The data broker was made anew, and its records are fed again."""
        self.begin()
        self.journal.renew(f"{np.random.default_rng().integers(1 << 62):032x}")
        begin_spend(self.state, Mesh(self.mesh), "a", None, ())

    def copied(self, target):
        """Go on in a copy."""
        self.kill()
        shutil.copytree(self.state, target)
        other = Folder(target, self.meshes, self.paid, self.stream)
        other.run, other.price = self.run, self.price
        return other

    def check(self):
        """What is said is what is true, or more."""
        found = total(all_spends(self.state, "a"))
        worst = max(self.paid.values(), default=0)
        assert found.epsilon is not None
        assert found.epsilon >= worst
        assert found.stream_epsilon is None or found.stream_epsilon >= self.stream
        return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.integers(1, 3)),
        st.tuples(st.just("next_run"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["begin", "end", "kill", "lose", "lost_log", "copied"])),
    ),
    max_size=10,
)


@pytest.fixture(scope="module")
def meshes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("meshes")
    return [mesh_file(folder, privacy={"noise": "exact", "epsilon": price}).mesh for price in PRICES]


@settings(max_examples=60, deadline=None)
@given(steps)
def test_what_is_added_up_is_never_less_than_what_was_spent(meshes, found):
    with tempfile.TemporaryDirectory() as parent:
        (Path(parent) / "0").mkdir()
        folders = [Folder(Path(parent) / "0", meshes)]
        try:
            for name, *arguments in found:
                if name == "copied":
                    folders.append(folders[-1].copied(Path(parent) / str(len(folders))))
                else:
                    getattr(folders[-1], name)(*arguments)
                folders[-1].check()
            folders[0].learn(1)  # the first goes on beside its copies
            folders[0].check()
        finally:
            for folder in folders:
                folder.kill()


@pytest.fixture
def folder(tmp_path, meshes):
    (tmp_path / "state").mkdir()
    made = Folder(tmp_path / "state", meshes)
    yield made
    made.kill()


def test_nothing_is_added_twice_while_one_journal_goes_on(folder):
    for _ in range(3):
        folder.learn(2)
        folder.kill()
    folder.end()
    assert (folder.check().epsilon, folder.check().stream_epsilon) == (1, 6)


def test_runs_in_turn_add_up(folder):
    for _ in range(3):
        folder.learn(2)
        folder.end()
        folder.next_run(0)
    found = folder.check()
    assert (found.epsilon, found.stream_epsilon) == (3, 6)


def test_a_second_life_under_one_name_is_a_second_spend(folder):
    """H5: killed, and the journal deleted: not 5, but 10; what the stream paid nobody knows."""
    folder.next_run(2)
    folder.learn(3)
    folder.lose()
    folder.learn(1)
    folder.end()
    found = folder.check()
    assert (found.epsilon, found.stream_epsilon) == (10, None)
    said = reuse_of(all_spends(folder.state, "a"), "run-2").sentence()
    assert said == (
        "Run run-2 (an earlier life) learnt from some of the same records: over all runs each record is "
        "protected with epsilon = 10 (pure), by this folder."
    )


def test_a_run_that_was_never_ended_counts_with_what_its_journal_says(folder):
    folder.learn(3)
    folder.next_run(1)
    folder.learn(2)
    found = folder.check()
    assert (found.epsilon, found.stream_epsilon) == (3, 7)


def test_a_copy_keeps_what_was_charged_and_the_first_goes_on(folder, tmp_path):
    folder.learn(3)
    copy = folder.copied(tmp_path / "copy")
    copy.learn(2)
    copy.end()
    assert (copy.check().epsilon, copy.check().stream_epsilon) == (2, None)  # the first may go on
    folder.learn(1)
    assert (folder.check().epsilon, folder.check().stream_epsilon) == (1, 4)


def test_a_lost_log_is_a_second_life_from_which_charges_go_on(folder):
    """60 rounds, and then the broker's disk is lost: nothing is said to be 0."""
    folder.learn(60)
    folder.lost_log()
    assert folder.journal.charged == folder.journal.carried == 60
    assert folder.check().stream_epsilon == 60
    folder.learn(5)
    folder.end()
    assert (folder.check().epsilon, folder.check().stream_epsilon) == (2, 65)


def test_a_life_whose_journal_is_lost_leaves_its_charges_to_the_next(folder):
    """60 rounds, the journal deleted, twice: as in a node's process, with or without what plans count."""
    for rounds in (60, 5):
        folder.learn(rounds)
        folder.end()
        folder.lose()
    folder.begin()
    assert (folder.journal.charged, folder.journal.carried) == (65, 65)
    assert (folder.check().epsilon, folder.check().stream_epsilon) == (2, 65)


def test_a_lost_life_of_another_price_is_refused_and_leaves_no_journal(folder):
    folder.learn(3)
    folder.lose()  # not ended: it may have charged more than is written down
    folder.price = 1
    with pytest.raises(JournalError, match="run-1 has charged in this folder, and its epsilon is 1, not 2"):
        folder.begin()
    assert [spend.run for spend in all_spends(folder.state, "a")] == ["run-1"]
    folder.price = 0
    folder.learn(1)
    assert folder.check().stream_epsilon is None


def test_lines_that_do_not_say_the_mechanism_add_up_in_full(folder):
    folder.learn(3)
    folder.end()
    path = StateFolder(folder.state).spends("a")
    write_spends(path, [spend._replace(settings=()) for spend in read_spends(path)])
    folder.lose()
    folder.learn(1)
    folder.end()
    assert (folder.journal, folder.check().epsilon, folder.check().stream_epsilon) == (None, 2, 7)
