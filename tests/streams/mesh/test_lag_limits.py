"""`lag_limit`: what of a mesh file acts."""

from math import inf

import pytest

from streams.mesh.mesh import lag_limits, why_for_ever
from streams.mesh.settings.mesh import MeshSettings
from tests.support.meshes.files import changed
from topology.lag import LagLimits


def mesh(**changes):
    return MeshSettings.model_validate(changed(**{"lag_limit": 1} | changes)["mesh"])


def test_a_node_may_hold_the_others_for_the_limit_and_stuck_for_all_that_it_waits_for():
    assert lag_limits(mesh()) == LagLimits(stuck=15.0, slow=1.0)
    assert lag_limits(mesh(lag_limit="none")) == LagLimits(stuck=15.0, slow=inf)
    assert lag_limits(mesh(silence=60)) == LagLimits(stuck=60.0, slow=1.0)
    assert lag_limits(mesh(lag_limit=90)) == LagLimits(stuck=90.0, slow=90.0)
    tree = changed(lag_limit=1)["mesh"] | {"slots": {"by": "time", "period": 30.0, "start": 0, "grace": 1.0}}
    assert lag_limits(MeshSettings.model_validate(tree)) == LagLimits(stuck=36.0, slow=1.0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"silence": "none"}, "silence is none"),
        ({"round_timeout": "none"}, "round_timeout is none"),
        ({"slots": {"by": "count", "timeout": "none"}}, "slots.timeout is none"),
    ],
)
def test_where_something_waits_for_ever_it_is_off(changes, why):
    assert lag_limits(mesh(**changes)) is None
    assert why_for_ever(mesh(**changes)) == why
