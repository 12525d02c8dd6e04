"""`mirrormesh schema --topic`: from the first messages of a topic that others write, over all partitions."""

import json
import uuid

import pytest
import yaml

from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.schema import SchemaSettings
from tests.kafka.test_existing_topic import create, produce
from tests.support.processes.in_process import Commands

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def topic():
    """A topic that no other test knows."""
    return f"payments.{uuid.uuid4().hex[:8]}"


def message(number):
    if number % 9 == 4:
        return None if number % 2 else b"{"
    row = {
        "amount": number + 0.5,
        "customer": {"country": ("de", "fr")[number % 2]},
        "fraud": number % 3 == 0,
    }
    return json.dumps(row).encode()


def test_a_schema_is_written_from_the_first_messages(broker, topic, tmp_path, monkeypatch, capsys):
    broker = broker.address
    monkeypatch.chdir(tmp_path)
    create(broker, topic, 3)
    produce(broker, topic, [message(number) for number in range(60)])
    call = Commands(capsys)
    outcome = call("schema", "--topic", topic, "--servers", broker, "--public", "--output", "schema.yaml")
    assert outcome.err == ""
    assert outcome.code == 0
    schema = SchemaSettings.model_validate(read_yaml(tmp_path / "schema.yaml"))
    assert list(schema.features) == ["amount", "customer.country"]
    assert set(schema.features["customer.country"].categories) == {"de", "fr"}
    assert schema.features["amount"].bounds == (0.5, 59.5)
    assert (schema.label.column, schema.label.positive) == ("fraud", ("true",))
    (line,) = [row for row in (tmp_path / "schema.yaml").read_text().splitlines() if "  source: " in row]
    source = yaml.safe_load(line.removeprefix("#   "))["source"]
    assert (source["kind"], source["topic"], source["broker"]["servers"]) == ("topic", topic, broker)
    few = call("schema", "--topic", topic, "--servers", broker, "--first", "5")
    assert few.code == 0
    assert "FILL-IN" in few.out
    missing = call("schema", "--topic", f"{topic}.none", "--servers", broker)
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == f"{broker}: there is no topic {topic}.none\n"
    (tmp_path / "broker.yaml").write_text(f"servers: {broker}\n")
    by_file = call("schema", "--topic", topic, "--broker", "broker.yaml", "--first", "5")
    assert by_file.out == few.out
