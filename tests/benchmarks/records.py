"""How much later a slot closes for what a record holds: `python -m tests.benchmarks.records`.

Processor time, so what else the machine does has no part. A malformed record is what none may be later than.
"""

import statistics
import time

from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.observed import observed

_SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "distance"}}
_ORDINARY = b'{"x": 1, "y": 2, "distance": 3}'
_RUNS = 60


def _unused(size: int) -> bytes:
    """Return an ordinary record with unused keys, of about that many bytes."""
    keys = b"".join(b', "key %06d": [1, 2, {"more": null}]' % k for k in range(size // 38))
    return _ORDINARY[:-1] + keys + b"}"


def main() -> None:
    """Measure, and print."""
    decoder = SchemaDecoder(SchemaSettings.model_validate(_SCHEMA), json_fields)
    records = {
        "malformed": b"\xff\x00{",
        "ordinary": _ORDINARY,
        "1 MiB of unused keys": _unused(1 << 20),
        "the longest that is parsed": _unused(decoder.longest - 64),
    }
    for name, value in records.items():
        times = []
        for _ in range(_RUNS):
            began = time.process_time_ns()
            observed((value,), decoder)
            times.append(time.process_time_ns() - began)
        print(f"{name:28} {len(value):>9,} bytes: {statistics.median(times) / 1e6:.3f} ms")


if __name__ == "__main__":
    main()
