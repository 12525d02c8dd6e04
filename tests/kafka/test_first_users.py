"""Two data sets as first users bring them: from CSV to predictions, on a real Kafka."""

import csv
import json
import re
import uuid

import numpy as np
import pytest
import yaml

from tests.support.meshes.first_users import on_broker, payments, readings
from tests.support.processes.command import Process

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def predicted(tmp_path, broker):
    """Run the mesh of a file on the broker to its end, and predict held-out records; what `predict` says."""

    def made(path, *options):
        on_broker(path, broker.address)
        said = done("up", path, "--state", tmp_path / "state", *options)
        assert "100 rounds in " in said
        judged(said, tmp_path / "state")
        replayed = tmp_path / "state" / "replay.yaml"
        done("model", replayed if "--replay" in options else path, "--output", tmp_path / "learnt")
        return done("predict", "learnt.json", "held-out.csv", "--output", "p.csv")

    def done(command, *arguments):
        process = Process(tmp_path, command, command, *arguments)
        assert process.ends(300) == 0, process.log
        return process.log

    return made


def judged(said, state):
    """Each node's verdict is told where its owner ran `up`, and in no log of a process."""
    verdicts = dict(re.findall(r"Verdict of ([\w-]+): (.*)", said))
    assert set(verdicts) == {path.stem for path in state.glob("*.journal")}
    assert all(verdict.startswith("better than guessing: ") for verdict in verdicts.values()), verdicts
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.glob("*.verdict"))
    logs = list((state / "logs").iterdir())
    assert logs
    for log in logs:
        assert not re.search("guessing|Verdict|AUC", log.read_text())


def marked():
    return f"-{uuid.uuid4().hex[:8]}"


def test_card_payments(tmp_path, predicted):
    path = payments(tmp_path, mark=marked())
    tree = yaml.safe_load(path.read_text())
    keeper, *others = tree["nodes"]
    tree["nodes"][keeper]["source"]["keep_back"] = 0.5
    path.write_text(yaml.safe_dump(tree))
    said = predicted(path)
    verdicts = {
        name: json.loads((tmp_path / "state" / f"{name}.verdict").read_text()) for name in (keeper, *others)
    }
    assert verdicts[keeper]["basis"] == "records that it never learnt from"
    assert all(verdicts[name]["basis"] == "the records that it learnt from" for name in others)
    learnt = verdicts[keeper]["facts"]["records"]
    assert learnt + verdicts[keeper]["closing"]["records"] == verdicts[others[0]]["facts"]["records"]
    assert "8,000 labelled records" in said
    assert float(re.search(r"AUC (\d\.\d+)", said)[1]) > 0.75


def test_readings_of_a_past_day_are_replayed(tmp_path, predicted):
    predicted(readings(tmp_path, mark=marked(), every=0.02), "--replay")
    with (tmp_path / "p.csv").open() as told, (tmp_path / "held-out.csv").open() as wanted:
        predictions = np.array([float(row["prediction"]) for row in csv.DictReader(told)])
        inside = np.array([float(row["inside"]) for row in csv.DictReader(wanted)])
    assert np.sqrt(np.mean((predictions - inside) ** 2)) < 0.8 * inside.std()
