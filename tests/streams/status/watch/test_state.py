"""What plans and heartbeats tell of a mesh: an example of every flag, and what holds of any of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.status.account import ChargeCount, account
from streams.status.mesh_status import KEPT, Refusals, StatusTracker
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.machines import INSTANCES, end, plan
from tests.support.nodes.scheduling import beat as any_beat

H = 4


def mesh_file(folder, **mesh):
    tree = changed(**({"nodes": list("abc"), "horizon": H, "silence": 10, "rounds": 40} | mesh))
    tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in tree["mesh"]["nodes"]}
    return loaded(folder, tree)


@pytest.fixture
def watched(tmp_path):
    return StatusTracker(mesh_file(tmp_path).resolved)


def beat(node, stepped, instance=None, **fields):
    return any_beat(node, stepped, instance or INSTANCES[node], **fields)


def beats(*stepped, at=100.0, **fields):
    return [(beat(name, rounds, **fields), at) for name, rounds in zip("abc", stepped, strict=False)]


def planned(first, last, **options):
    return [(plan(round, **options), 100.0) for round in range(first, last + 1)]


def flags(watched, now=100.0):
    return {row.name: row.flags for row in watched.status(now).rows}


def plain(watched, now=100.0):
    """The flags, but the one that every node of these meshes has."""
    return {
        name: [flag for flag in found if flag != "simulated"] for name, found in flags(watched, now).items()
    }


def test_who_has_evidence_is_told_beside_whom_it_accuses(watched):
    watched.take(planned(1, 8))
    watched.take([(beat("a", 4, accused=(INSTANCES["b"],)), 100.0), *beats(4, 4, 4)[1:]])
    assert plain(watched) == {"a": [], "b": ["two values: a"], "c": []}
    watched.take([(beat("c", 5, accused=(INSTANCES["b"], "9" * 32)), 100.0)])
    assert plain(watched)["b"] == ["two values: a and 1 more"]
    watched.take([(beat("b", 5, instance="8" * 32, boot="7" * 32, hello=True), 100.0)])
    assert "two values" not in str(plain(watched)["b"])  # it has joined as a new instance


def test_what_was_refused_is_told_beside_whom_it_concerns(watched):
    watched.take([*planned(1, 8), *beats(4, 4, 4)])
    watched.refused({"a": Refusals(1, 0), "b": Refusals(1200, 1), "c": Refusals(0, 30)})
    assert plain(watched) == {
        "a": ["1 dead letter"],
        "b": ["1,200 dead letters", "1 heartbeat refused"],
        "c": ["30 heartbeats refused"],
    }
    watched.refused({"a": Refusals()})
    assert plain(watched) == {name: [] for name in "abc"}


def test_nothing_is_known_of_a_mesh_that_has_not_begun(watched):
    status = watched.status(5.0)
    assert (status.round, status.planned, status.lead, status.live, status.over) == (0, 0, 0, 0, False)
    assert [(row.name, row.stepped, row.seen, row.hears) for row in status.rows] == [
        (name, None, None, frozenset()) for name in "abc"
    ]
    assert flags(watched) == dict.fromkeys("abc", ("never seen", "simulated"))


def test_a_mesh_in_step(watched):
    watched.take([*planned(1, 8), *beats(5, 6, 5)])
    status = watched.status(103.0)
    assert (status.round, status.rounds, status.planned, status.lead, status.live) == (5, 40, 8, 3, 3)
    assert plain(watched, 103.0) == {name: [] for name in "abc"}
    assert [row.stepped for row in status.rows] == [5, 6, 5]
    assert [row.seen for row in status.rows] == [3.0, 3.0, 3.0]
    assert [row.hears for row in status.rows] == [{"b", "c"}, {"a", "c"}, {"a", "b"}]


def test_each_node_is_shown_at_the_plan_that_it_has_not_stepped(watched):
    watched.take([*planned(1, 4), *planned(5, 5, edges={("b", "a"): 0.5, ("a", "b"): 0.5}), *beats(3, 4, 4)])
    hears = {row.name: set(row.hears) for row in watched.status(100.0).rows}
    assert hears == {"a": {"b", "c"}, "b": {"a"}, "c": set()}


def test_the_speed_is_that_of_the_slowest(watched):
    watched.take(planned(1, 8))
    for second, (fast, slow) in enumerate([(0, 0), (4, 2), (8, 4)]):
        watched.take(beats(fast, slow, fast, at=100.0 + second))
        rate = watched.status(100.0 + second).rate
    assert rate == 2.0


def test_who_is_not_heard_is_silent_and_holds_up_no_figure(watched):
    watched.take([*planned(1, 8), *beats(6, 6, 2), *beats(6, 6, at=120.0)])
    status = watched.status(121.0)
    assert plain(watched, 121.0) == {"a": [], "b": [], "c": ["silent"]}
    assert (status.live, status.round) == (2, 6)


def test_who_asks_to_join_is_joining_then_a_listener_then_neither(watched):
    asks = (beat("c", 0, instance=INSTANCES["a"], join_after=4), 100.0)
    watched.take([*planned(1, 4), *beats(4, 4, 4), asks])
    assert plain(watched) == {"a": [], "b": [], "c": ["joining"]}
    lives = {"c": INSTANCES["a"]}
    watched.take(planned(5, 5, edges={("a", "c"): 0.5}, listeners="c", instances=lives))
    assert plain(watched)["c"] == ["listener"]
    watched.take(
        [*planned(6, 6, instances=lives), (beat("c", 5, instance=INSTANCES["a"], join_after=4), 100.0)]
    )
    assert plain(watched)["c"] == []


def test_who_leaves_is_leaving_and_then_has_left(watched):
    watched.take([*planned(1, 4), *beats(4, 4), (beat("c", 4, leave_from=5), 100.0)])
    assert plain(watched)["c"] == ["leaving"]
    watched.take(planned(5, 5, names="ab"))
    assert plain(watched)["c"] == ["left"]
    watched.take([*planned(6, 90, names="ab"), *beats(88, 88, at=150.0)])
    assert plain(watched, 150.0)["c"] == ["left"]  # neither silent nor behind: nobody waits for it


@pytest.mark.parametrize(("stepped", "told"), [(15, []), (14, ["6 behind"]), (26, ["6 ahead"])])
def test_more_than_the_horizon_apart_is_told(watched, stepped, told):
    watched.take([*planned(1, 27), *beats(20, 20, stepped if stepped != 15 else 16)])
    assert plain(watched)["c"] == told


def test_a_fast_mesh_steps_more_than_that_between_two_heartbeats(watched):
    for second in range(3):
        watched.take(
            [*planned(100 * second + 1, 100 * second + 100), *beats(*3 * [100 * second], at=100.0 + second)]
        )
        watched.status(100.0 + second)
    watched.take(beats(300, 300, at=103.0))
    assert plain(watched, 103.0)["c"] == []


def test_a_replaced_process_is_not_heard(watched):
    watched.take([*planned(1, 8), *beats(5, 5, 5)])
    watched.take([(beat("c", 5, boot="new", hello=True), 101.0), (beat("c", 8), 130.0)])
    assert watched.status(131.0).rows[2].stepped == 5
    assert "silent" in flags(watched, 131.0)["c"]


def test_the_run_is_over_and_nobody_is_missed(watched):
    watched.take([*planned(1, 4), (end(5).plan, 100.0), *beats(4, 4, 4)])
    status = watched.status(500.0)
    assert status.over
    assert (status.round, status.planned, status.lead, status.rate) == (4, 4, 0, None)
    assert plain(watched, 500.0) == {name: [] for name in "abc"}


def test_after_the_end_the_last_round_is_that_of_whoever_went_furthest(watched):
    watched.take([*planned(1, 4), (end(5).plan, 100.0), *beats(4, 4, 2)])
    assert watched.status(500.0).round == 4


def test_one_look_tells_no_speed(watched):
    watched.take([*planned(1, 8), *beats(5, 5, 5)])
    assert watched.status(100.0).rate is None
    assert watched.status(101.0).rate == 0.0
    assert watched.status(500.0).rate is None  # nobody is live


def test_what_a_losing_scheduler_wrote_first_holds_nothing_up(watched):
    lost = plan(9, follows=8)
    watched.take([(lost, 100.0), (plan(9, follows=8), 100.0), (plan(12, follows=11), 100.0)])
    watched.take([(plan(13, follows=12), 100.0), (plan(13, follows=12), 100.0)])
    assert watched.status(100.0).planned == 13


def test_what_is_spent_is_what_the_node_itself_has_charged(tmp_path):
    """Plans are ahead of nodes: `watch` and a node's metrics have one figure, that of the last step."""
    privacy = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5, "noise": "exact", "budget": 3}
    file = mesh_file(tmp_path, privacy=privacy)
    watched = StatusTracker(file.resolved)
    counts = [(("a", k), ("b", k), ("c", k)) for k in range(8)]
    watched.take([(plan(k + 1, named=counts[k]), 100.0) for k in range(8)])
    watched.take(beats(2, 3, 6))
    rows = {row.name: row for row in watched.status(100.0).rows}
    for name, stepped in zip("abc", (2, 3, 6), strict=True):
        known = account(file, name, ChargeCount(stepped, min(3, stepped), exactly=True))
        assert (rows[name].spent, rows[name].budget) == (known.spent, known.budget)
        assert ("relaying" in rows[name].flags) == known.relaying == (stepped >= 3)
        assert "simulated" not in rows[name].flags


def test_a_node_that_was_away_has_rounds_of_its_budget_left_when_it_learns_no_more(tmp_path):
    privacy = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5, "noise": "exact", "budget": 6}
    watched = StatusTracker(mesh_file(tmp_path, privacy=privacy).resolved)
    counts = [(("a", k), ("b", k), ("c", max(0, k - 4))) for k in range(8)]
    watched.take([(plan(k + 1, named=counts[k]), 100.0) for k in range(8)])
    watched.take(beats(7, 5, 7))
    found = {row.name: (row.learnt_until, row.unused) for row in watched.status(100.0).rows}
    assert found == {"a": (6, 0), "b": (None, 0), "c": (6, 2)}


def test_where_nothing_is_protected_everything_is_spent(tmp_path):
    privacy = {"mechanism": "none", "gradient_bound": 1}
    tree = changed(nodes=list("abc"))
    tree["mesh"]["privacy"] = privacy
    tree["nodes"] = {}
    watched = StatusTracker(loaded(tmp_path, tree).resolved)
    watched.take([*planned(1, 3), *beats(1, 1, 1)])
    assert [row.spent for row in watched.status(100.0).rows] == [math.inf] * 3
    assert flags(watched) == dict.fromkeys("abc", ())


entries = st.one_of(
    st.builds(
        lambda round, skipped: plan(round + skipped, follows=round - 1), st.integers(1, 12), st.integers(0, 3)
    ),
    st.builds(
        lambda node, stepped, life, join, leave, hello: beat(
            node, stepped, instance=f"{life:032x}", join_after=join, leave_from=leave, hello=hello
        ),
        st.sampled_from("abc"),
        st.integers(0, 12),
        st.integers(1, 2),
        st.none() | st.integers(1, 12),
        st.none() | st.integers(1, 12),
        st.booleans(),
    ),
)


@given(st.lists(st.tuples(entries, st.integers(0, 60))))
def test_whatever_is_read_gives_a_row_for_every_node(tmp_path_factory, read):
    watched = StatusTracker(mesh_file(tmp_path_factory.mktemp("any")).resolved)
    now = 0.0
    for entry, seconds in read:
        now += seconds
        watched.take([(entry, now)])
        status = watched.status(now)
        assert [row.name for row in status.rows] == list("abc")
        assert 0 <= status.lead <= KEPT * H
        assert status.rate is None or status.rate >= 0
        for row in status.rows:
            assert row.hears <= set(row.sources)
            assert (row.seen is None) == (row.stepped is None) == ("never seen" in row.flags)
            assert row.seen is None or 0 <= row.seen <= now
            assert len(set(row.flags)) == len(row.flags)
