"""A figure's names stand apart and in order, and a line that lies on another lets it be seen."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.harness.figures import Curve, draw
from experiments.harness.labels import name_lines, spread


@pytest.mark.parametrize(
    "wanted", [[0.5, 0.5, 0.5], [0.1, 0.9, 0.12], [0.3, 0.35, 0.4, 0.6], [0.9], [0.2, 0.1, 0.3, 0.25]]
)
def test_names_are_apart_in_the_order_of_the_lines_ends(wanted):
    found = spread(wanted, 0.1)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0.1 - 1e-9).all()
    assert np.mean(found) == pytest.approx(np.mean(wanted))


def test_names_that_are_apart_stay_where_they_are():
    assert spread([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]


def test_only_a_line_on_another_is_dashed():
    figure, axes = plt.subplots()
    x = np.arange(10.0)
    for label, y in (("a", x), ("b", x + 0.01), ("c", 9 - x)):
        axes.plot(x, y, label=label)
    name_lines(axes)
    assert [line.is_dashed() for line in axes.get_lines()] == [False, True, False]
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]
    plt.close(figure)


@pytest.mark.parametrize(("most", "scale"), [(4.0, "linear"), (12.0, "log")])
def test_an_axis_is_logarithmic_where_the_lines_go_over_a_factor_of_ten(tmp_path, monkeypatch, most, scale):
    kept = []
    monkeypatch.setattr(plt, "close", lambda figure: kept.append(figure.axes[0].get_yscale()))
    curve = Curve(np.array([1.0, 2.0]), np.array([1.0, most]))
    draw(tmp_path, "figure", {"a": curve}, title="a", x="x", y="y", scales=("linear", "auto"))
    assert kept == [scale]
