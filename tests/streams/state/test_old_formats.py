"""Journals of format 5 and `.spends` without lives, made by the code before them: read, and gone on with."""

import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from nodes.accounting.spends import Span, total
from streams.mesh.file import load
from streams.public.account import account
from streams.public.standings import journal_standing
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import Journal
from streams.state.journal_reader import JournalReader
from streams.state.run_spends import begin_spend
from streams.state.spend_file import read_spends
from streams.state.spends import all_spends, put_aside

OLD = Path(__file__).with_name("format_5")
DRAWS = "SELECT count(*) FROM secret_draws"


@pytest.fixture
def folder(tmp_path, request):
    """A copy of the state folder; `moved`: as a copy looks, else as the folder itself."""
    name, moved = request.param
    state = tmp_path / name
    shutil.copytree(OLD / name, state)
    shutil.copytree(OLD / "data", state / "data")
    for path in [] if moved else state.glob("*.journal"):
        found = path.stat()
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE life SET place = ?", (f"{found.st_dev}:{found.st_ino}",))
        connection.close()
    return state


def file_of(folder, **nodes):
    """The mesh file of the folder, with other overrides."""
    made = load(folder / "mesh.yaml", {})
    if nodes:
        text = (folder / "mesh.yaml").read_text()
        assert "epsilon: 50" in text
        (folder / "mesh.yaml").write_text(text.replace("epsilon: 50", f"epsilon: {nodes['a']}"))
        made = load(folder / "mesh.yaml", {})
    return made


def opened(folder, file, node="a"):
    """The journal, as a process of today opens it."""
    return Journal(
        folder / f"{node}.journal",
        run=file.mesh.run,
        node=node,
        digest=file.digest(),
        instance="cc" * 16,
        horizon=file.mesh.horizon,
        mesh=file.mesh.name,
        price=file.resolved.node(node).price,
    )


@pytest.mark.parametrize("folder", [("ended", False), ("killed", False)], indirect=True)
def test_what_was_written_down_tells_the_price_of_an_old_journal(folder):
    file = file_of(folder)
    (spend,) = all_spends(folder, "a")  # read only: as it lies there
    assert (spend.charged, spend.epsilon, spend.stream_epsilon, spend.open) == (3, 50, 150.0, False)
    assert account(file, "a", journal_standing(folder, file, "a")).spent == 150.0
    with opened(folder, file) as journal:
        assert (journal.charged, journal.copied, len(journal.records())) == (3, False, 4)
        assert journal.price == file.resolved.node("a").price
        own = begin_spend(folder, file.resolved, "a", journal.records()[-1], ())
    assert (own.charged, own.epsilon, own.spans, own.open) == (3, 50, (Span("0", 0),), True)
    (spend,) = all_spends(folder, "a")
    assert (spend.charged, spend.epsilon, spend.stream_epsilon) == (3, 50, 150.0)
    (line,) = read_spends(StateFolder(folder).spends("a"))
    assert line.life == own.life != ""


@pytest.mark.parametrize("folder", [("ended", True), ("killed", True)], indirect=True)
def test_a_copy_of_an_old_folder_goes_on_from_what_was_charged(folder):
    file = file_of(folder)
    with opened(folder, file) as journal:
        assert (journal.copied, journal.charged, journal.records()) == (True, 3, ())
        own = begin_spend(folder, file.resolved, "a", None, ())
    assert (own.charged, own.epsilon) == (0, 50)
    first, second = all_spends(folder, "a")
    assert (first.charged, first.epsilon, first.stream_epsilon, first.open) == (3, 50, 150.0, False)
    assert (second.charged, second.epsilon, second.stream_epsilon) == (0, 50, 0.0)


@pytest.mark.parametrize("folder", [("ended", False), ("killed", True)], indirect=True)
def test_another_price_than_the_written_one_is_refused(folder):
    file = file_of(folder, a=1)
    for _ in range(2):
        with pytest.raises(JournalError, match=r"its epsilon is 50, not 1: .* need a new run"):
            opened(folder, file)
    with pytest.raises(JournalError, match="a's epsilon was 50 in this run, not 1"):
        journal_standing(folder, file, "a")
    with opened(folder, file, "b") as journal:
        assert journal.charged == 3


@pytest.mark.parametrize("folder", [("bare", False), ("bare", True)], indirect=True)
def test_without_what_was_written_down_the_price_is_unknown(folder):
    file = file_of(folder, a=1)
    (spend,) = all_spends(folder, "a")
    assert (spend.charged, spend.epsilon) == (3, None)
    found = account(file, "a", journal_standing(folder, file, "a"))
    assert (found.charged, found.protected, found.epsilon, found.spent) == (3, False, None, None)
    with opened(folder, file) as journal:
        records = journal.records()
        begin_spend(folder, file.resolved, "a", records[-1] if records else None, ())
    assert (total(all_spends(folder, "a")).epsilon, total(all_spends(folder, "a")).stream_epsilon) == (
        None,
        None,
    )


@pytest.mark.parametrize("folder", [("band", False)], indirect=True)
def test_the_draws_of_an_old_band_are_kept_and_put_aside_they_are_gone(folder):
    file = file_of(folder)
    with opened(folder, file) as journal:
        assert journal.secret() is not None
    aside = put_aside(folder, "a", "run-2")
    with JournalReader(aside) as journal:
        assert journal._connection.execute(DRAWS).fetchone() == (0,)
    (spend,) = all_spends(folder, "a")
    assert (spend.run, spend.charged, spend.epsilon, spend.delta) == ("run-1", 6, 1, 1e-6)


@pytest.mark.parametrize("folder", [("killed", True)], indirect=True)
def test_an_old_journal_is_put_aside_unopened(folder):
    aside = put_aside(folder, "a", "run-2")
    assert aside == folder / "a.run-1.journal"
    for _ in range(2):
        (spend,) = all_spends(folder, "a")
        assert (spend.charged, spend.epsilon, spend.stream_epsilon) == (3, Fraction(50), 150.0)
        assert not spend.open


@pytest.mark.parametrize("folder", [("ended", False)], indirect=True)
def test_a_journal_that_is_not_its_own_is_left_as_it_is(folder):
    before = (folder / "a.journal").read_bytes()
    file = file_of(folder)
    with pytest.raises(JournalError, match="its run is run-1, not run-2"):
        Journal(
            folder / "a.journal",
            run="run-2",
            node="a",
            digest=file.digest(),
            instance="cc" * 16,
            horizon=32,
        )
    with sqlite3.connect(folder / "a.journal") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (5,)
    connection.close()
    assert len((folder / "a.journal").read_bytes()) == len(before)
