import json
import math
import stat
from fractions import Fraction

import numpy as np
import pytest

from nodes.accounting.spends import Span, Spend
from nodes.machine.journal import JournalRecord
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import Journal
from streams.state.journal_reader import JournalReader
from streams.state.spend_file import from_line, read_spends, to_line
from streams.state.spends import all_spends, earlier_spends, keep_spend, put_aside

SPEND = Spend("r1", 7, Fraction(1, 3), 1e-6, 2.5, 1e-6, (Span("0", 3, 10), Span("1")), open=True)


def journal(folder, run, charged, *, node="east", end=40, name=None, life="aa" * 16):
    """The journal of a life that has stepped `charged` rounds."""
    path = folder / (name or f"{node}.journal")
    made = Journal(path, run=run, node=node, digest=bytes(16), instance=life, horizon=4)
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
    bare = Spend("r2", 1, None, 0.0, math.inf, 0.0)
    keep_spend(path, SPEND)
    keep_spend(path, bare)
    assert read_spends(path) == (SPEND, bare)
    assert [file.name for file in tmp_path.iterdir()] == ["east.spends"]


def test_a_run_that_goes_on_keeps_its_beginning_and_its_charges(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    keep_spend(path, SPEND._replace(spans=(Span("0", 3),)))
    keep_spend(path, SPEND._replace(spans=(Span("0", 20, 30),), charged=5, stream_epsilon=1.0, open=False))
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
    who = {"before": 3, "reuse": "end", "life": "aa" * 16}
    opened = Spend("r1", 0, Fraction(1, 2), 0.0, 0.0, 0.0, (Span("0", 5),), open=True, **who)
    keep_spend(StateFolder(tmp_path).spends("east"), opened)
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
    path.write_text("")
    path.chmod(0o644)  # as it was made before
    keep_spend(path, SPEND)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_said_of_reuse_stands_under_word_as_it_always_did():
    line = to_line(SPEND._replace(reuse="end"))
    assert json.loads(line)["word"] == "end"
    assert from_line(line).reuse == "end"


def test_lines_without_anybodys_word_are_read_as_before(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    path.write_text(
        '{"run": "r1", "charged": 7, "epsilon": "1/3", "delta": 0.0, "stream_epsilon": 2.5, '
        '"stream_delta": 0.0, "spans": [["0", 3, null]], "open": true}\n'
    )
    assert read_spends(path) == (
        Spend("r1", 7, Fraction(1, 3), 0.0, 2.5, 0.0, (Span("0", 3),), open=True, before=0, reuse=None),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": "-5"},
        {"epsilon": "1/0"},
        {"epsilon": math.nan},
        {"delta": math.nan},
        {"delta": None},
        {"stream_epsilon": -1.0},
        {"stream_delta": "0"},
        {"charged": -9},
        {"charged": "7"},
        {"before": True},
        {"open": 1},
        {"word": "none"},
        {"life": 7},
        {"spans": [[0, 1, 2]]},
    ],
)
def test_what_no_life_can_have_spent_is_broken_and_lowers_nothing(tmp_path, wrong):
    path = StateFolder(tmp_path).spends("east")
    keep_spend(path, SPEND)
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    with pytest.raises(JournalError, match="is broken: what earlier runs have spent is not known"):
        read_spends(path)


def test_nothing_is_forgotten_silently(tmp_path):
    path = StateFolder(tmp_path).spends("east")
    path.write_text('{"run": "r1"}\n')
    with pytest.raises(JournalError, match="is broken: what earlier runs have spent is not known"):
        read_spends(path)
    with pytest.raises(JournalError, match="is broken"):
        keep_spend(path, SPEND)
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
