"""What `feed` takes for each record of a file: `python -m tests.benchmarks.feeding`, also in `make bench`.

Beside a bare loop that sends the same lines with the same two headers. Both send to librdkafka's mock broker,
which runs in the same process, so its work is in both. Processor time in us a record, in turns.
"""

import json
import math
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from confluent_kafka import Producer

from streams.bus.rights import feeder
from streams.codec.topics import DataTopics
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Stop
from streams.tools.feed import feed as feeding
from streams.tools.feed.feed import Pace
from streams.tools.feed.figures import FeedFigures
from streams.tools.feed.lines import LINE, MARK, FeedOptions, FeedTopic, HeldLines, opened
from tests.benchmarks.decoding import compare
from tests.support.meshes.files import changed, loaded

RECORDS, NUMBERS, TURNS = 40_000, 11, 5
NAMES = [*(f"x{k}" for k in range(NUMBERS - 1)), "y"]
NODE, LONGEST, SERVED = "a", 2**20, 1_000
TOPICS = DataTopics("m", NODE)
SCHEMA = {"features": dict.fromkeys(NAMES[:-1], "number"), "label": {"column": "y"}}
BROKER = BrokerSettings(servers="mock:1")


def mesh_file(folder: Path, kind: str) -> MeshFile:
    """Write lines of that kind, and return a mesh whose node has them."""
    chance = np.random.Generator(np.random.Philox(1))
    rows = chance.normal(size=(RECORDS, NUMBERS)).round(6).tolist()
    if kind == "csv":
        lines = [",".join(NAMES), *(",".join(map(str, row)) for row in rows)]
    else:
        lines = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in rows]
    path = folder / f"lines.{kind}"
    path.write_text("\n".join(lines) + "\n")
    tree = changed(nodes=[NODE], loss="squared", dimension=NUMBERS - 1, topology={"graph": "complete"})
    tree["nodes"] = {NODE: {"source": {"kind": kind, "path": str(path), "schema": SCHEMA}}}
    return loaded(folder, tree)


def settings(topic: FeedTopic) -> dict[str, Any]:
    """Return a feed's settings of its producer, on a mock broker."""
    return feeding.producer_settings(BROKER, topic) | {"test.mock.num.brokers": 1}


def fed(file: MeshFile) -> None:
    """Feed all lines."""
    topic = FeedTopic(
        NODE, f"{NODE}-letters", LONGEST, 0.0, False, HeldLines(0, None, 0, 0), frozenset(), feeder(TOPICS)
    )
    on_mock = settings(topic)
    with Stop() as stop, patch.object(feeding, "producer_settings", lambda *_: on_mock):
        source = opened(file, NODE, FeedOptions())
        result = feeding.write(BROKER, NODE, topic, source, Pace(math.inf), stop, FeedFigures(stop))
    assert (result.records, result.counts.malformed) == (RECORDS, 0)


def bare(path: Path) -> None:
    """Send the lines, without a look at them."""
    topic = FeedTopic(NODE, NODE, LONGEST, 0.0, False, HeldLines(0, None, 0, 0), frozenset(), feeder(TOPICS))
    producer = Producer(settings(topic) | {"log_level": 0})
    with path.open("rb") as file:
        for number, line in enumerate(file):
            headers = [(LINE, b"%d" % number), (MARK, b"12345678")]
            producer.produce(NODE, line.rstrip(), partition=0, headers=headers)
            if number % SERVED == 0:
                producer.poll(0)
    producer.flush()
    producer.close()


def main() -> None:
    """Measure, and print."""
    for kind in ("csv", "json-lines"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            file = mesh_file(folder, kind)
            forms = {
                "bare loop": lambda folder=folder, kind=kind: bare(folder / f"lines.{kind}"),
                "feed": lambda file=file: fed(file),
            }
            compare(f"{kind}, {NUMBERS} numbers", RECORDS, forms, TURNS)


if __name__ == "__main__":
    main()
