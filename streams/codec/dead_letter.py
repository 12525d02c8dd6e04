"""Dead letters: a refused record, its topic and the reason. JSON, so that people can read it.

{"topic": ..., "reason": ..., "detail": ..., "value": base64}
"""

import base64
import json

from streams.codec.fields import Reason, Refused


def encode_dead_letter(topic: str, value: bytes, refused: Refused) -> bytes:
    """Return the dead letter for `value`, which was read from `topic`."""
    content = base64.b64encode(value).decode("ascii")
    letter = {"topic": topic, "reason": refused.reason.value, "detail": str(refused), "value": content}
    return json.dumps(letter).encode()


def decode_dead_letter(data: bytes) -> tuple[str, bytes, Reason]:
    """Return (topic, value, reason) of a dead letter. Raises ValueError or KeyError for other bytes."""
    letter = json.loads(data)
    return letter["topic"], base64.b64decode(letter["value"], validate=True), Reason(letter["reason"])
