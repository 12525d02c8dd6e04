import pytest

from streams.mesh.file import MeshFileError, ended_slots, has_ended, refuse_ended
from tests.support.meshes.files import changed, loaded

START, PERIOD = 1000.0, 10.0
NONE = "on a broker no record enters a slot any more"


def mesh_of(folder, rounds=12, **slots):
    tree = changed(rounds=rounds, horizon=4)
    tree["mesh"]["slots"] = slots or {"by": "time", "start": START, "period": PERIOD}
    return loaded(folder, tree)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (0.0, None),
        (1009.9, None),
        (1010.0, "slot 1 ended 0 s ago"),
        (1039.0, "slot 1 ended 29 s ago"),
        (1040.0, "slot 1 ended 30 s ago: a run that begins now on a broker begins with slot 5"),
        (1119.0, "slot 1 ended 109 s ago: a run that begins now on a broker begins with slot 12"),
        (1130.0, f"slot 1 ended 2 min ago, and slot 12, the last, 10 s ago: {NONE}"),
        (1010.0 + 18 * 3600, f"slot 1 ended 18 h ago, and slot 12, the last, 18 h ago: {NONE}"),
    ],
)
def test_what_has_ended_is_said_by_the_clock_that_is_given(tmp_path, now, said):
    file = mesh_of(tmp_path)
    assert ended_slots(file, file.mesh.rounds, now) == said


@pytest.mark.parametrize(("seconds", "ago"), [(3 * 86_400, "3 d"), (90 * 60, "90 min"), (119, "119 s")])
def test_a_time_that_is_past_is_put_in_one_unit(tmp_path, seconds, ago):
    file = mesh_of(tmp_path, rounds=1)
    said = ended_slots(file, 1, 1010.0 + seconds)
    assert said == f"slot 1 ended {ago} ago: {NONE}"


def test_a_run_is_refused_from_the_end_of_its_last_slot_on(tmp_path):
    file = mesh_of(tmp_path)
    refuse_ended(file, 1119.9)
    with pytest.raises(MeshFileError, match=r"mesh\.slots\.start: slot 1 ended .* with up --replay a mesh"):
        refuse_ended(file, 1120.0)
    assert [has_ended(file, now) for now in (1119.9, 1120.0)] == [False, True]


def test_a_run_without_an_end_and_slots_by_count_never_end(tmp_path):
    for file in (mesh_of(tmp_path, rounds=None), mesh_of(tmp_path, by="count", size=1)):
        refuse_ended(file, 1e15)
        assert not has_ended(file, 1e15)
    assert ended_slots(file, 12, 1e15) is None
