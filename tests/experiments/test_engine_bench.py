"""The bare loop that the engine is measured beside comes to the engine's releases."""

import numpy as np
import pytest

from tests.benchmarks.engine import bare, of_engine, records


@pytest.mark.parametrize(("nodes", "dimension"), [(6, 2), (16, 5)])
def test_the_bare_loop_does_the_same_arithmetic(nodes, dimension):
    slots = records(nodes, dimension, 200)
    assert bare(nodes, dimension, slots) == pytest.approx(
        of_engine(nodes, dimension, slots), rel=1e-9, abs=1e-12
    )
    assert np.abs(bare(nodes, dimension, slots)).max() > 0.1
