"""Histories of a mesh in virtual time under seeded faults, checked event by event."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli import main
from streams.cli import simulate as simulating
from streams.mesh.errors import UsageError
from streams.mesh.file import load
from streams.simulation import search as searching
from streams.simulation.bus import FaultyBroker, FaultyBus, Link
from streams.simulation.faults import FaultKind
from streams.simulation.history import Reached
from streams.simulation.search import MeshStage, SearchOutcome, run, search, shrunk
from tests.simulation.test_planted_bugs import charge_after_send
from tests.streams.mesh.test_dynamics import MOVING
from tests.support.meshes.files import changed, loaded
from tests.support.meshes.following import following

MESH = Path(__file__).parent / "mesh.yaml"
MANY = 100


@pytest.fixture(scope="module")
def stage():
    return MeshStage(load(MESH))


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_no_history_breaks_an_invariant(stage, first):
    for outcome in search(stage, range(first, first + 50)):
        again = f"mirrormesh simulate {MESH} --seed {outcome.seed} --histories 1"
        assert outcome.violation is None, f"{outcome.violation}: {again}"


@pytest.mark.parametrize(
    "keep", [(0, 1, 2, 3, 8, 10, 12), (1, 2, 18, 21)], ids=["lone-liar", "nothing-learnt"]
)
def test_what_only_a_lone_liar_or_an_empty_journal_brings_about_breaks_none(stage, keep):
    """The last plan's only member is believed; a run ends where the journals that are left hold no round."""
    assert run(stage, 478, keep).violation is None


@pytest.mark.parametrize("keep", [None, (1, 2, 5, 6, 7, 18)])
def test_no_run_ends_while_a_member_that_is_cut_off_may_have_a_journal(stage, keep):
    assert run(stage, 1390, keep).violation is None


def test_a_node_may_leave_by_a_wish_that_was_taken_back_before_it_was_told_so():
    stage = MeshStage(load(MESH.parents[2] / "deploy/meshes/tracking.yaml"))
    assert run(stage, 8056, (12, 14, 15, 17, 19)).violation is None


@pytest.mark.parametrize("public", [False, True], ids=["gradients", "public directions"])
def test_late_releases_of_a_mesh_that_moves_are_moved_too(tmp_path, public):
    """With public directions they correct nothing, which the oracle expects too."""
    tree = following(changed()) if public else changed(algorithm=MOVING, dimension=4)
    stage = MeshStage(loaded(tmp_path, tree))
    outcomes = list(search(stage, range(20)))
    assert [found.violation for found in outcomes if found.violation] == []
    assert any(Reached.LATE in found.history.reached for found in outcomes)


@pytest.mark.parametrize("seed", [3, 14])
def test_the_same_seed_is_the_same_history_byte_for_byte(stage, seed):
    """In this process, and in one whose sets are in another order."""
    here = run(stage, seed).history
    again = run(MeshStage(load(MESH)), seed).history
    assert list(again.text()) == list(here.text())
    program = (
        "import sys; from pathlib import Path; from streams.mesh.file import load;"
        "from streams.simulation.search import MeshStage, run;"
        "print(run(MeshStage(load(Path(sys.argv[1]))), int(sys.argv[2])).history.digest())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(MESH), str(seed)],
        env=os.environ | {"PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == here.digest()


def test_a_failing_history_is_shrunk_and_printed_with_the_command_that_runs_it_again(stage, capsys):
    """A node that charges nothing for its draws: found without any fault."""
    with pytest.MonkeyPatch.context() as patch:
        charge_after_send(patch)
        failed = next(found for found in search(stage, range(20)) if found.violation is not None)
        short = shrunk(stage, failed)
        assert failed.faults
        assert not short.faults
        with pytest.raises(SystemExit) as ended:
            main(["simulate", str(MESH), "--seed", str(failed.seed), "--histories", "3"])
    said = capsys.readouterr().out
    assert ended.value.code == 1
    assert said.endswith(f"Again: mirrormesh simulate {MESH} --seed {failed.seed} --faults none\n")
    lines = said.splitlines()
    assert any("VIOLATION" in line for line in lines)
    assert lines[: lines.index("")] == list(short.history.text())
    assert len({line.index(" s  ") for line in lines[: lines.index("")]}) == 1  # aligned


def test_the_command_says_how_many_histories_held_and_what_they_reached(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(MESH), "--seed", "7", "--histories", "5"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith("5 histories, ")
    assert "no violation" in said
    assert "Reached: " in said


def test_a_search_that_was_not_where_bugs_are_fails(capsys):
    """Of one history alone hardly anything can be said to have happened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulating, "ALL", 1)
        with pytest.raises(SystemExit) as ended:
            main(["simulate", str(MESH), "--seed", "7", "--histories", "1"])
    assert ended.value.code == 1
    assert "Never reached: " in capsys.readouterr().out


def test_what_fails_in_another_way_is_not_taken_for_the_same(stage, monkeypatch):
    failures = {(0, 1): "plan 7 is far ahead: of 3", (0,): "b lies", (1,): "plan 9 is far ahead: of 1"}

    def told(_, seed, keep):
        return SearchOutcome(seed, (), keep, None, failures.get(keep))

    monkeypatch.setattr(searching, "run", told)
    assert shrunk(stage, told(stage, 3, (0, 1))).keep == (1,)


def test_messages_of_some_histories_are_signed_and_a_stranger_is_refused(stage):
    outcomes = [run(stage, seed) for seed in range(40)]
    forged = [found for found in outcomes if Reached.FORGED in found.history.reached]
    assert forged
    assert all(stage.scene(found.seed).setting.signed for found in forged)
    assert all(found.violation is None for found in forged)


def test_rounds_of_some_histories_follow_a_clock_which_a_scheduler_has_wrong(stage):
    clocked = [seed for seed in range(60) if stage.scene(seed).setting.clocked]
    wrong = [
        seed
        for seed in clocked
        if FaultKind.CLOCK_AHEAD in {fault.kind for fault in stage.scene(seed).faults}
    ]
    outcomes = [run(stage, seed) for seed in wrong]
    assert [found.violation for found in outcomes if found.violation] == []
    assert any(line.what == FaultKind.CLOCK_AHEAD for found in outcomes for line in found.history.lines)


def test_only_the_faults_that_are_named_happen(stage):
    every = run(stage, 5)
    assert len(every.faults) > 2
    assert run(stage, 5, (0, 2)).faults == (every.faults[0], every.faults[2])


@pytest.mark.parametrize("places", ["-1", "0,999"])
def test_faults_that_the_seed_does_not_have_are_refused(capsys, places):
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(MESH), "--faults", places])
    assert ended.value.code == 2
    assert f"--faults {places}: the seed has " in capsys.readouterr().err


def test_faults_that_are_no_numbers_are_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(MESH), "--faults", "1,x"])
    assert ended.value.code == 2
    assert "--faults 1,x: must be whole numbers" in capsys.readouterr().err


def test_a_mesh_of_two_is_too_small(tmp_path):
    tree = changed(nodes=["a", "b"])
    tree["nodes"] = {name: tree["nodes"][name] for name in "ab"}
    with pytest.raises(UsageError, match="3 nodes"):
        MeshStage(loaded(tmp_path, tree))


def test_other_seeds_are_other_histories(stage):
    assert len({run(stage, seed).history.digest() for seed in range(5)}) == 5


class Unwatched:
    """Watches nothing."""

    def happens(self):
        pass

    def appended(self, topic, value):
        pass


def test_a_send_overtakes_none_that_is_due_at_the_same_moment():
    """It answers one of them in that moment, as a scheduler plans on top of what it reads."""
    broker = FaultyBroker(["plans"], None, Unwatched(), lambda: True)
    bus = FaultyBus(broker, Link())
    answer = lambda _, __, value, ___: bus.send("plans", b"3") if value == b"1" else None  # noqa: E731
    bus.subscribe({"plans": 0}, answer, print)
    broker.latency = {"plans": 1.0}
    bus.send("plans", b"1")
    bus.send("plans", b"2")
    broker.calm()
    broker.run()
    assert [stored.value for stored in broker.logs["plans"].records] == [b"1", b"2", b"3"]


def test_processes_die_during_an_append_and_of_two_nodes_of_a_process_one_ends_and_the_other_goes_on():
    reached = set()
    for outcome in search(MeshStage(load(MESH)), range(MANY)):
        assert outcome.violation is None
        reached |= outcome.history.reached
        if {Reached.APPEND, Reached.ALONE} <= reached:
            return
    pytest.fail(f"in {MANY} histories only {', '.join(sorted(reached))}")
