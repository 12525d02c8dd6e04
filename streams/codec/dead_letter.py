"""Dead letters: a refused record, its topic and the reason. JSON, so that people can read it.

{"topic": ..., "reason": ..., "detail": ..., "value": base64}, and {"bytes": ...} if only the first bytes of a
longer value are kept.
"""

import base64
import json

from streams.codec.fields import Refused

AROUND = 1024
"""The bytes of a letter around its value, with the longest detail and topic."""
_DETAIL = 300


def encode_dead_letter(topic: str, value: bytes, refused: Refused, longest: int | None = None) -> bytes:
    """Return the dead letter for `value`, which was read from `topic`.

    `longest`: the bytes that the letter may have; None: any number.
    """
    head = value if longest is None else value[: max(0, longest - AROUND) // 4 * 3]
    content, detail = base64.b64encode(head).decode("ascii"), str(refused)[:_DETAIL]
    letter: dict[str, object] = {"topic": topic, "reason": refused.reason.value, "detail": detail}
    if len(head) < len(value):
        letter["bytes"] = len(value)
    return json.dumps(letter | {"value": content}).encode()


def decode_dead_letter(data: bytes) -> tuple[str, bytes, str]:
    """Return (topic, value, reason) of a dead letter. Raises ValueError or KeyError for other bytes.

    The reason is a `Reason`'s value, or one that a newer version has.
    """
    letter = json.loads(data)
    return letter["topic"], base64.b64decode(letter["value"], validate=True), str(letter["reason"])
