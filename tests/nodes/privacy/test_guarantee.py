from fractions import Fraction

import pytest

from nodes.privacy.guarantee import Guarantee


def test_the_sentence_for_count_slots() -> None:
    assert Guarantee("laplace", Fraction(1)).sentence("A") == (
        "Each record of node A's stream is protected with epsilon = 1 (pure), for the whole stream, against "
        "everyone on the mesh broker, all other nodes and the scheduler; arrival times, keys, timestamps and "
        "counts are public (count slots); a fact in k records or nodes is protected at k epsilon."
    )


def test_the_sentence_for_time_slots_names_their_adjacency() -> None:
    sentence = Guarantee("laplace", Fraction("0.5"), slots="time").sentence("A")
    assert "epsilon = 0.5 (pure)" in sentence
    assert "added or removed" in sentence
    assert (
        "keeps its timestamp (time slots): moved to another slot it is protected at epsilon = 1;" in sentence
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
    assert Guarantee.adjacency == "event"


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


def test_what_delta_becomes_is_said() -> None:
    """Two releases compose to 2 delta; k records in one slot are a chain of k neighbours."""
    sentence = Guarantee("gaussian", Fraction("0.5"), 1e-6, slots="time").sentence("A")
    assert "moved to another slot it is protected at epsilon = 1, delta = 2e-06;" in sentence
    assert sentence.endswith("at k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1) times as large.")
