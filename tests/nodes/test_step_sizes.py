import math

import pytest

from nodes.algorithms import Constant, Inverse, InverseSqrt, ShiftedInverse


def test_by_hand():
    assert [Constant(0.5)(t) for t in (1, 2, 100)] == [0.5, 0.5, 0.5]
    assert [InverseSqrt(3.0)(t) for t in (1, 4, 9)] == [3.0, 1.5, 1.0]
    assert [Inverse(6.0)(t) for t in (1, 2, 3)] == [6.0, 3.0, 2.0]
    assert [ShiftedInverse(6.0, 1.0)(t) for t in (1, 2, 5)] == [3.0, 2.0, 1.0]


@pytest.mark.parametrize("rule", [Constant, InverseSqrt, Inverse, lambda a: ShiftedInverse(a, 1.0)])
@pytest.mark.parametrize("a", [0.0, -1.0, math.inf, math.nan])
def test_a_broken_a_is_named(rule, a):
    with pytest.raises(ValueError, match=f"a is {a}: must be finite and above 0"):
        rule(a)


@pytest.mark.parametrize("b", [-0.5, math.inf, math.nan])
def test_a_broken_b_is_named(b):
    with pytest.raises(ValueError, match=f"b is {b}: must be finite and at least 0"):
        ShiftedInverse(1.0, b)
