"""`mirrormesh predict --topic` predicts a range of a topic once."""

import json
from datetime import UTC, datetime

import pytest

from tests.support.brokers.scoring import SCHEMA, ScoredTopics, expected, model, values
from tests.support.meshes.files import changed, written
from tests.support.processes.command import Process

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_predict_takes_a_range_of_a_topic_by_offsets_or_times(tmp_path, broker):
    topics, path = ScoredTopics(broker.address), model(tmp_path)
    messages = values(60)
    messages[30], messages[31] = b"{", None  # unreadable, and no record
    topics.produce(messages)

    def predicted(*edges):
        """The number of the message at each place that has a line, and its line."""
        output = tmp_path / "predictions.jsonl"
        words = ["--topic", topics.input, "--servers", topics.address, "--json", "--output", output, *edges]
        process = Process(tmp_path, "predict", "predict", path, *words)
        assert process.ends() == 0, process.log
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        return {3 * line["offset"] + line["partition"]: line for line in lines}

    def moment(number):
        return datetime.fromtimestamp((topics.began + number) / 1e3, UTC).isoformat()

    lines = predicted()
    assert lines.keys() == set(range(60)) - {31}
    for number, line in lines.items():
        wanted = expected(number)["prediction"] if number != 30 else None
        assert line["prediction"] == (None if wanted is None else pytest.approx(wanted))
    assert predicted("--from", 5, "--to", 7).keys() == set(range(15, 21))
    by_time = predicted("--from", moment(10), "--to", moment(20))
    assert by_time.keys() == set(range(10, 20))
    assert predicted("--from", moment(50), "--to", 99).keys() == set(range(50, 60))
    process = Process(
        tmp_path, "none", "predict", path, "--topic", topics.input, "--servers", topics.address, "--from", 99
    )
    assert process.ends() == 2
    assert process.log.splitlines() == [f"{topics.input}: holds no record there that can be read"]
    process = Process(tmp_path, "no", "predict", path, "--topic", "nowhere", "--servers", topics.address)
    assert process.ends() == 2
    assert process.log.splitlines()[-1] == f"--topic: no topic nowhere on {topics.address}"


def test_the_topic_of_a_nodes_source_is_read_as_the_source_reads_it(tmp_path, broker):
    """Its partitions, on its broker; labels that come later are not waited for."""
    topics, path = ScoredTopics(broker.address), model(tmp_path)
    topics.produce(values(30))
    labels = {"topic": "c", "join": "fraud", "after": "1h", "value": {"constant": "1"}, "otherwise": "0"}
    source = {"kind": "topic", "topic": topics.input, "schema": SCHEMA, "labels": labels}
    source |= {"partitions": [0, 2], "broker": {"servers": broker.address}}

    def predicted(**changes):
        tree = changed(nodes=["a", "b", "c"], loss="logistic", dimension=3)
        tree["nodes"] = {"a": {"source": source | changes}}
        nowhere = {"servers": "127.0.0.1:1"}
        tree["brokers"] = {"mesh": {"servers": "127.0.0.1:2"}, "data": nowhere}
        words = ["--topic", topics.input, "--mesh", written(tmp_path, tree), "a", "--json"]
        process = Process(tmp_path, "of-node", "predict", path, *words, "--output", "predictions")
        code = process.ends()
        said = process.log
        process.path.unlink()
        return code, said

    code, said = predicted()
    assert code == 0, said
    lines = [json.loads(line) for line in (tmp_path / "predictions").read_text().splitlines()]
    assert {3 * line["offset"] + line["partition"] for line in lines} == {k for k in range(30) if k % 3 != 1}
    code, said = predicted(partitions=[0, 7])
    assert (code, said.count("\n")) == (2, 1)
    assert said.endswith(f"{topics.input}: has no partition 7: must be among 0 to 2\n")
