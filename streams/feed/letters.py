"""The dead letter of a record that could not be fed, for the owner's eyes.

{"line": 17, "reason": ..., "value": base64}
"""

import base64
import json
from collections import deque
from collections.abc import Collection, Iterable
from hashlib import blake2b

from streams.feed.lines import Line

BYTES = 8 * 2**20
"""Bytes of letters that are on their way at most, or one letter: less than their topic keeps."""


def encode_letter(line: Line) -> bytes:
    """Return the letter about a bad line."""
    content = base64.b64encode(line.value).decode("ascii")
    return json.dumps({"line": line.number, "reason": line.bad, "value": content}).encode()


def digest(letter: bytes) -> bytes:
    """Return what tells a letter from any other."""
    return blake2b(letter, digest_size=16).digest()


def lacking(lines: Iterable[Line], there: Collection[bytes]) -> list[bytes]:
    """Return the letters of bad lines whose digests are not `there`: the last `BYTES` of them, in order.

    No more can be lost when a feed is killed; letters before those have left their log, which keeps more.
    """
    found, size = deque[bytes](), 0
    for line in lines:
        if line.bad is None or digest(letter := encode_letter(line)) in there:
            continue
        found.append(letter)
        size += len(letter)
        while size > BYTES and len(found) > 1:
            size -= len(found.popleft())
    return list(found)
