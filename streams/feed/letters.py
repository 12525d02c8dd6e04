"""The dead letter of a record that could not be fed, for the owner's eyes.

{"line": 17, "reason": ..., "value": base64}
"""

import base64
import json

from streams.feed.lines import Line


def encode_letter(line: Line) -> bytes:
    """Return the letter about a bad line."""
    content = base64.b64encode(line.value).decode("ascii")
    return json.dumps({"line": line.number, "reason": line.bad, "value": content}).encode()
