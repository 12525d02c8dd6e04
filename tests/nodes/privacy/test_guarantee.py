import math
import re
from fractions import Fraction

import numpy as np
import pytest

from nodes.accounting.calibration import gaussian_delta
from nodes.accounting.guarantee import Guarantee, Unit
from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.exact import SimulatedSampler


def test_the_sentence_for_count_slots() -> None:
    assert Guarantee("laplace", Fraction(1)).sentence("A") == (
        "Each record of node A's stream is protected with epsilon = 1 (pure), for the whole stream, against "
        "everyone on the mesh broker, all other nodes and the scheduler; arrival times, keys, timestamps and "
        "counts are public (count slots); a fact in k records or nodes is protected at k epsilon; a person "
        "with k records is protected at k epsilon too, as no unit (privacy.unit) is named: one with 100 at "
        "epsilon = 100."
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "text"),
    [
        ("0.3", 0.0, "epsilon = 30."),
        ("0.01", 1e-6, "epsilon = 1, delta = 0.000170"),
        ("1", 1e-6, "epsilon = 100, where delta is 1 and nothing is proved."),
        ("700", 1e-6, "epsilon = 70000, where delta is 1 and nothing is proved."),
        ("20", 1e-6, "epsilon = 2000, where delta is 1 and nothing is proved."),
    ],
)
def test_what_a_person_with_100_records_gets_without_a_unit(epsilon: str, delta: float, text: str) -> None:
    sentence = Guarantee("gaussian", Fraction(epsilon), delta).sentence("A")
    assert f"(privacy.unit) is named: one with 100 at {text}" in sentence
    unit = Unit("who", 5, 4, rounds=20)
    assert "no unit" not in Guarantee("gaussian", Fraction(epsilon), delta, unit=unit).sentence("A")


def test_the_sentence_for_time_slots_names_their_adjacency() -> None:
    sentence = Guarantee("laplace", Fraction("0.5"), slots="time").sentence("A")
    assert "epsilon = 0.5 (pure)" in sentence
    assert "added or removed" in sentence
    assert (
        "keeps its timestamp (time slots): moved to another slot it is protected at epsilon = 1; one whose "
        "bytes change may move to another node, where take splits a file, and costs in both;" in sentence
    )
    assert "counts are public" not in sentence


def test_delta_is_said() -> None:
    assert "(delta = 1e-06)" in Guarantee("gaussian", Fraction(1), 1e-6).sentence("A")


def test_a_trusted_broker_is_said_and_is_no_adversary() -> None:
    sentence = Guarantee("laplace", Fraction(1), trusted_broker=True).sentence("A")
    assert "is trusted" in sentence
    assert "everyone on the mesh broker" not in sentence


@pytest.mark.parametrize(
    "guarantee", [Guarantee("none", None), Guarantee("laplace", Fraction(1), simulated=True)]
)
def test_no_protection_is_said_plainly(guarantee: Guarantee) -> None:
    sentence = guarantee.sentence("A")
    assert not guarantee.protects
    assert sentence.startswith("Nothing in node A's stream is protected")
    assert "is protected with" not in sentence


def test_a_real_one_protects() -> None:
    assert Guarantee("laplace", Fraction(1)).protects
    assert Guarantee("laplace", Fraction(1)).adjacency == "event"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"epsilon": Fraction(0)}, "epsilon is 0"),
        ({"epsilon": Fraction(1), "delta": 1.0}, "delta is 1.0"),
        ({"epsilon": Fraction(1), "delta": float("nan")}, "delta is nan"),
        ({"epsilon": Fraction(1), "batch_size": 0}, "batch_size is 0"),
        ({"epsilon": Fraction(1), "slots": "size"}, "slots is 'size'"),
    ],
)
def test_values_out_of_range_are_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Guarantee("laplace", **settings)  # type: ignore[arg-type] # wrong on purpose


@pytest.mark.parametrize(("epsilon", "bands", "delta"), [(5, 64, 1e-6), (8, 64, 1e-6), (10, 16, 1e-5)])
def test_a_record_that_moves_among_slots_which_share_noise_is_promised_no_more_than_it_gets(
    epsilon: int, bands: int, delta: float
) -> None:
    """Two adjacent slots that move alike, each as far as the clip lets it: mu of the two columns' sum."""
    made = GaussianBisr(1.0, Fraction(epsilon), delta, 1, 2, SimulatedSampler(0, "A"), bands)
    both = np.append(made.matrix.column, 0.0) + np.append(0.0, made.matrix.column)
    moved = 2 * int(made.theta / made.grid.step) * 2.0**FINER
    true = gaussian_delta(2 * epsilon, moved * math.sqrt((both * both).sum()) / made.scale)
    sentence = Guarantee(made.name, made.epsilon, delta, "time", correlated=True).sentence("A")
    found = re.search(r"moved to another slot it is protected at epsilon = (\d+), delta = (\S+);", sentence)
    assert found is not None
    assert int(found[1]) == 2 * epsilon
    assert true <= float(found[2]) == pytest.approx(delta * (1 + math.exp(epsilon)), rel=1e-5)
    assert true > 1.3 * 2 * delta  # what independent noise would give


@pytest.mark.parametrize(("epsilon", "delta", "correlated"), [("8", 0.01, True), ("0.5", 0.6, False)])
def test_where_nothing_is_proved_of_a_record_that_moves_that_is_said(
    epsilon: str, delta: float, *, correlated: bool
) -> None:
    sentence = Guarantee("x", Fraction(epsilon), delta, "time", correlated=correlated).sentence("A")
    assert "moved to another slot nothing is proved of it; one whose" in sentence


def test_what_delta_becomes_is_said() -> None:
    """Two releases compose to 2 delta; k records in one slot are a chain of k neighbours."""
    sentence = Guarantee("gaussian", Fraction("0.5"), 1e-6, slots="time").sentence("A")
    assert "moved to another slot it is protected at epsilon = 1, delta = 2e-06;" in sentence
    assert "at k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1) times as large; a person" in sentence


def test_a_replays_one_public_difference_is_named() -> None:
    sentence = Guarantee("laplace", Fraction(1), slots="time", shift=86_400.0).sentence("A")
    assert "; the time of every record is moved by the same 86,400 s, which are public; a fact in" in sentence
