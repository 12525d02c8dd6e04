"""One walk as a newcomer takes it, on one broker: the README's commands, then the tutorial's, in order."""

import re
from pathlib import Path

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

HERE = {"mirrormesh up my-mesh.yaml"}
"""What other tests of pages leave out, as it needs a broker."""
ACCURACY, AUC = (0.76, 0.92), (0.90, 0.97)
"""On the tutorial's held-out records; 0.81 to 0.87 and 0.92 to 0.95 were seen, and the noise is exact."""


class Walk:
    """Types a page's commands, and keeps what each has said last."""

    def __init__(self, address):
        self.said, self._address = {}, address

    def page(self, page, folder):
        run_blocks(page, folder, Shell(self._is_left_out, self.run), self.edit)

    def run(self, words):
        self.said[words[1]] = typed(words)
        if words[1] == "init":
            path = Path(words[2])
            path.write_text(self.edit(path.read_text()))

    def edit(self, text):
        return text.replace("127.0.0.1:19092", self._address)

    def _is_left_out(self, line):
        if line in HERE:
            return False
        return line in LEFT_OUT or not (ends_by_itself(line) or is_for_kafka(line))


def score(text, name):
    """A score of a report, wherever its lines are broken."""
    return float(re.search(rf"{name} (\d\.\d+)", " ".join(text.split()))[1])


def within(text):
    assert ACCURACY[0] < score(text, "accuracy") < ACCURACY[1]
    assert AUC[0] < score(text, "AUC") < AUC[1]


def test_who_walks_through_the_readme_and_then_the_tutorial_learns_from_the_own_records(
    tmp_path, new_broker, monkeypatch
):
    walk = Walk(new_broker().address)
    for folder in ("readme", "tutorial"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "readme")
    walk.page(ROOT / "README.md", tmp_path / "readme")
    assert {"init", "check", "plan", "run", "up"} <= set(walk.said)
    assert "the run is over: round 1 was its last" in walk.said["up"]

    walk.said.clear()
    folder = tmp_path / "tutorial"
    monkeypatch.chdir(folder)
    walk.page(ROOT / "docs" / "tutorial.md", folder)
    assert {"init", "check", "plan", "run", "predict", "up", "watch", "budget", "model"} == set(walk.said)
    within(walk.said["run"])
    assert "the run is over: round 50 was its last" in walk.said["up"]
    assert "Malformed" not in walk.said["up"]
    state = folder / "mirrormesh-state" / "income"
    assert (state / "north.journal").exists()
    assert {path.name for path in state.iterdir() if not is_listed(path.name)} == set()
    assert (folder / "predictions.csv").read_text().count("\n") == 1001
    assert "50" in walk.said["watch"]
    assert {path.name for path in folder.glob("from-kafka.*")} == {"from-kafka.npz", "from-kafka.json"}
    # both meshes call their nodes alike, on one broker: this one's model is of its own records
    walk.run(["mirrormesh", "predict", "from-kafka.json", "test.csv", "--output", "of-kafka.csv"])
    within(walk.said["predict"])
