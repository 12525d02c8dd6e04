import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.codec import Reason, Refused, decode_dead_letter, encode_dead_letter


@given(st.text(), st.binary(max_size=100), st.sampled_from(Reason), st.text())
def test_a_letter_says_what_was_refused_where_and_why(topic, value, reason, detail):
    letter = encode_dead_letter(topic, value, Refused(reason, detail))
    assert decode_dead_letter(letter) == (topic, value, reason)
    assert detail in json.loads(letter)["detail"]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"topic": "t", "reason": "none", "value": "?"}']
)
def test_what_is_no_letter_is_refused(data):
    with pytest.raises((ValueError, KeyError, TypeError)):
        decode_dead_letter(data)
