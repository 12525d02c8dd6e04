import csv
import json

import pytest

from nodes.regret import network_regret
from streams.local import results as network
from streams.local.results import save_whole, summarise, write_results
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load
from tests.support.processes.in_process import MESH

ROUNDS = 40


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    file = load(path)
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.finish()
    return file, local


def test_a_run_is_written_as_it_was_recorded(run, tmp_path):
    file, local = run
    rounds, summary = write_results(tmp_path, local.recorder, summarise(file, local.recorder, None))
    with rounds.open() as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == local.recorder.common_rounds * 3 > 0
    for k, row in enumerate(rows):
        t, node = divmod(k, 3)
        history = local.recorder.nodes["abc"[node]]
        assert (int(row["round"]), row["node"]) == (t + 1, "abc"[node])
        assert [float(row["decision_1"]), float(row["decision_2"])] == history.decisions[t].tolist()
        assert float(row["regret"]) == history.regrets[t]
        assert float(row["gap"]) == history.gaps[t]
        assert float(row["epsilon_spent"]) == history.records[t].epsilon_spent == t + 1
    written = json.loads(summary.read_text())
    assert written["decision"] == local.recorder.last_decisions().mean(0).tolist()
    assert written["decision"] != local.recorder.decisions()[-1].mean(0).tolist()
    assert [node["name"] for node in written["nodes"]] == ["a", "b", "c"]


def test_only_the_rounds_that_all_nodes_stepped_are_told(run, tmp_path):
    file, local = run
    history = local.recorder.nodes["b"]
    for series in (history.rounds, history.decisions, history.gaps, history.observations, history.regrets):
        del series[7:]
    write_results(tmp_path, local.recorder, summarise(file, local.recorder, None))
    rows = (tmp_path / "rounds.csv").read_text().splitlines()
    assert len(rows) == 1 + 7 * 3
    assert json.loads((tmp_path / "summary.json").read_text())["last_round"] == 7


def test_simulated_noise_has_no_epsilon_in_the_summary(run):
    file, local = run
    for node in summarise(file, local.recorder, None).nodes:
        assert node.epsilon is None
        assert node.stream_epsilon is None


def test_rounds_after_the_first_process_get_a_file_of_their_own(run, tmp_path):
    file, local = run
    for history in local.recorder.nodes.values():
        for series in (
            history.rounds,
            history.decisions,
            history.gaps,
            history.observations,
            history.regrets,
        ):
            del series[:7]
    rounds, _ = write_results(tmp_path, local.recorder, summarise(file, local.recorder, None))
    assert rounds.name == "rounds-from-8.csv"
    assert rounds.read_text().splitlines()[1].startswith("8,a,")


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old")

    def fails(unfinished):
        unfinished.write_text("half")
        raise OSError(28, "no space")

    with pytest.raises(OSError, match="no space") as raised:
        save_whole(target, fails)
    assert raised.value.filename == str(target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_file_may_be_read_by_whoever_the_umask_lets(tmp_path):
    save_whole(tmp_path / "new.csv", lambda unfinished: unfinished.write_text("x"))
    (tmp_path / "plain").write_text("x")
    assert (tmp_path / "new.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_un_noised_figures_are_for_their_owner_alone_also_over_older_files(run, tmp_path):
    file, local = run
    for name in ("rounds.csv", "summary.json"):
        (tmp_path / name).write_text("older")
        (tmp_path / name).chmod(0o644)
    for path in write_results(tmp_path, local.recorder, summarise(file, local.recorder, None)):
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_network_regret_of_a_run_is_over_all_nodes_losses(run):
    file, local = run
    recorder = local.recorder
    decisions, seen = recorder.decisions(), recorder.observations(file.mesh.slots.size)
    regret = network_regret(file.resolved.loss, file.resolved.algorithm.constraint, decisions, seen)
    found = summarise(file, recorder, None)
    assert found.network_regret == regret[-1].max() / len(decisions)
    assert found.as_json()["network_regret"] == found.network_regret
    assert found.network_regret != pytest.approx(sum(node.regret for node in found.nodes))


def test_what_would_take_long_is_not_known(run, monkeypatch):
    file, local = run
    monkeypatch.setattr(network, "MOST", 1)
    assert summarise(file, local.recorder, None).network_regret is None
