"""The late policy of a node: what it may be, and the errors of what it may not."""

import pytest
import yaml

from nodes.machine.slots import LatePolicy
from streams.mesh.file import MeshFileError, load
from tests.support.meshes.files import changed


def loaded(folder, policy, **mesh):
    tree = changed(**mesh)
    first = next(iter(tree["mesh"]["nodes"]))
    tree["nodes"][first]["late_policy"] = policy
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    file = load(path)
    return file.own(first).late_policy.policy(file.mesh.slots.size)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("queue", None),
        ({"drop-oldest": 4}, LatePolicy("drop-oldest", 4, 4)),
        ({"sample": 100}, LatePolicy("sample", 100, 4)),
    ],
)
def test_a_policy_knows_the_slots(tmp_path, policy, expected):
    assert loaded(tmp_path, policy, slots={"by": "count", "size": 4}) == expected


@pytest.mark.parametrize(
    ("policy", "slots", "said"),
    [
        ({"drop-oldest": 3}, {"by": "count", "size": 4}, "late_policy.drop-oldest: 3: must be at least 4"),
        ({"sample": 1}, {"by": "time", "period": 1, "start": 0}, "goes with slots by count"),
        ("drop-oldest", {"by": "count"}, "must be one of queue, {drop-oldest: ...}, {sample: ...}"),
        ({"drop-newest": 3}, {"by": "count"}, "did you mean drop-oldest?"),
        ({"sample": 0}, {"by": "count"}, "late_policy.sample: 0: must be at least 1"),
    ],
)
def test_mistakes_are_named(tmp_path, policy, slots, said):
    with pytest.raises(MeshFileError) as caught:
        loaded(tmp_path, policy, slots=slots)
    assert said in str(caught.value)


def test_a_queue_goes_with_every_slot(tmp_path):
    assert loaded(tmp_path, "queue", slots={"by": "time", "period": 1, "start": 0}, rounds=5) is None
