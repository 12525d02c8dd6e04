import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.codec import Reason, Refused, decode_dead_letter, encode_dead_letter


@given(st.text(), st.binary(max_size=100), st.sampled_from(Reason), st.text())
def test_a_letter_says_what_was_refused_where_and_why(topic, value, reason, detail):
    letter = encode_dead_letter(topic, value, Refused(reason, detail))
    assert decode_dead_letter(letter) == (topic, value, reason.value)
    assert detail[:280] in json.loads(letter)["detail"]


@given(st.binary(max_size=9000), st.integers(1100, 9000), st.text())
def test_a_letter_of_a_long_value_holds_its_beginning_and_is_no_longer_than_told(value, longest, detail):
    letter = encode_dead_letter("m.r.edge.a.b", value, Refused(Reason.TOO_LONG, detail), longest)
    _, kept, _ = decode_dead_letter(letter)
    assert len(letter) <= max(longest, 1024 + 6 * 300)  # a detail in another script is escaped
    assert value.startswith(kept)
    assert json.loads(letter).get("bytes", len(kept)) == len(value)


def test_a_boundless_value_is_not_encoded():
    value = bytes(2**25)
    tracemalloc.start()
    encode_dead_letter("t", value, Refused(Reason.TOO_LONG), 100_000)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"topic": "t", "reason": "run", "value": "?"}']
)
def test_what_is_no_letter_is_refused(data):
    with pytest.raises((ValueError, KeyError, TypeError)):
        decode_dead_letter(data)


def test_the_reason_of_a_newer_version_is_shown_as_it_is():
    letter = b'{"topic": "t", "reason": "too-new", "detail": "", "value": ""}'
    assert decode_dead_letter(letter) == ("t", b"", "too-new")
