"""What signatures cost: `python -m tests.benchmarks.signatures`.

Of a node with k neighbours a round has one signature of its own release, k of theirs to verify, at most one
of a plan, and four heartbeats in H rounds to sign.
"""

import time
from contextlib import suppress
from itertools import count
from statistics import median

from streams.codec.envelope import SignedEnvelope
from tests.support.meshes.keys import private

DIGEST = bytes(16)
TIMES, REPEATS = 2000, 5


def microseconds(action):
    """The median processor time of an action, of five repeats."""
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(TIMES):
            action()
        found.append((time.process_time() - began) / TIMES * 1e6)
    return median(found)


def main() -> None:
    """Print the processor times, by the bytes of a message."""
    keys = {name: private(name).public_key().public_bytes_raw() for name in ("a", "planner")}
    reader = SignedEnvelope("m", "r", DIGEST, keys, {})
    signer = reader.signing("a", private("a").sign)
    for size in (100, 1_000, 10_000, 100_000):
        numbers = count()
        unique = lambda: b"\x01\x01" + next(numbers).to_bytes(8, "little") + bytes(size - 10)  # noqa: B023, E731
        sign = microseconds(lambda: signer.sealed(unique()))  # noqa: B023
        sealed = iter([signer.sealed(unique()) for _ in range(TIMES * REPEATS)])
        verify = microseconds(lambda: reader.of_node(next(sealed), "a"))  # noqa: B023
        same = signer.sealed(unique())
        again = microseconds(lambda: reader.of_node(same, "a"))  # noqa: B023
        print(f"{size:>8,} bytes: sign {sign:.1f} us, verify {verify:.1f} us, seen before {again:.1f} us")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
