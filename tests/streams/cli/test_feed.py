import pytest
import typer

from streams.cli.feed import _summary, feed
from streams.mesh.errors import UsageError
from streams.records.faults import Fault, FaultCounts
from streams.tools.feed.feed import Fed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 5.0, "timestamps": True}, "--rate and --timestamps are two paces: must be one of them"),
        ({"rate": 0.0}, "--rate is 0: must be a number above 0"),
        ({"rate": float("nan")}, "--rate is nan: must be a number above 0"),
        ({"rate": float("inf")}, "--rate is inf: must be a number above 0"),
        ({"shift": float("nan")}, "--shift is nan: must be a number of seconds"),
    ],
)
def test_a_pace_that_is_none_is_refused(tmp_path, options, words):
    with pytest.raises(UsageError) as refused:
        feed(tmp_path / "mesh.yaml", "a", **options)
    assert str(refused.value) == words


def test_without_a_broker_in_the_mesh_file_there_is_nowhere_to_feed_to(mesh):
    app = typer.Typer()
    app.command()(feed)
    with pytest.raises(Exception, match=r"nodes\.a\.brokers: missing: must be given to use a broker"):
        app([str(mesh), "a"], standalone_mode=False)


def test_the_summary_says_what_was_fed():
    counts = FaultCounts()
    for fault in [None] * 1_498 + [Fault("x", "empty")] * 2:
        counts.add(fault)
    assert _summary(Fed("data.a", 10, 1500, counts, 0.5, stopped=False)) == (
        "data.a: fed 1,500 records (lines 11 to 1,510), 2 bad, in 0.5 s, 3,000 records/s"
    )
    assert (
        _summary(Fed("data.a", 10, 0, FaultCounts(), 0.5, stopped=False))
        == "data.a: nothing fed; it holds 10 lines"
    )
