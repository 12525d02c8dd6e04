"""The tutorial's commands on Kafka do what it says, in its order, after those that need no broker."""

import pytest

from docs.regions.state_folder import is_listed
from tests.support.published.page_blocks import (
    LEFT_OUT,
    Shell,
    ends_by_itself,
    is_for_kafka,
    run_blocks,
    typed,
)
from tests.support.published.pages import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_the_tutorial_runs_to_its_end(tmp_path, new_broker, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = new_broker().address
    said = {}

    def run(words):
        said[words[1]] = typed(words)

    def is_left_out(line):
        return line in LEFT_OUT or not (ends_by_itself(line) or is_for_kafka(line))

    def edit(text):
        return text.replace("127.0.0.1:19092", address)

    run_blocks(ROOT / "docs" / "tutorial.md", tmp_path, Shell(is_left_out, run), edit)
    assert {"init", "check", "plan", "run", "predict", "up", "watch", "budget", "model"} == set(said)
    state = tmp_path / "mirrormesh-state" / "income"
    assert (state / "north.journal").exists()
    assert {path.name for path in state.iterdir() if not is_listed(path.name)} == set()
    assert (tmp_path / "predictions.csv").read_text().count("\n") == 1001
    assert "50" in said["watch"]
    assert {path.name for path in tmp_path.glob("from-kafka.*")} == {"from-kafka.npz", "from-kafka.json"}
