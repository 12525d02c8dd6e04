"""A dead letter: what a node refused, from where, and why. JSON, so that a person can read it.

{"topic": ..., "reason": ..., "detail": ..., "value": base64}
"""

import base64
import json

from streams.codec.fields import Reason, Refused


def encode_dead_letter(topic: str, value: bytes, refused: Refused) -> bytes:
    """Return the letter about `value`, which was read from `topic`."""
    content = base64.b64encode(value).decode("ascii")
    letter = {"topic": topic, "reason": refused.reason.value, "detail": str(refused), "value": content}
    return json.dumps(letter).encode()


def decode_dead_letter(data: bytes) -> tuple[str, bytes, Reason]:
    """Return (topic, value, reason) of a letter of ours. Raises ValueError or KeyError for what is none."""
    letter = json.loads(data)
    return letter["topic"], base64.b64decode(letter["value"], validate=True), Reason(letter["reason"])
