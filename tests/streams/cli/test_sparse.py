"""Commands on a mesh of sparse records: what `check` finds, and what `run` says at its end."""

import json

import numpy as np
import yaml

from tests.support.meshes.reuters import texts
from tests.support.meshes.sparse import CSR, MESH


def written(folder, loss=(), **source):
    np.savez(folder / "rows.npz", **texts(120, 300))
    algorithm = MESH["algorithm"] | {"constraint": {"l2-ball": 50}, "lasso": 0.05}
    algorithm |= {"step_size": {"rule": "constant", "a": 5}}
    tree = {"mesh": MESH | {"dimension": 300, "rounds": 20, "algorithm": algorithm} | dict(loss)}
    tree["nodes"] = {
        name: {"source": CSR | {"take": {"every": 3, "offset": k}} | source} for k, name in enumerate("abc")
    }
    tree["held_out"] = CSR
    (folder / "mesh.yaml").write_text(yaml.safe_dump(tree))
    return folder / "mesh.yaml"


def test_a_run_says_its_score_and_what_share_of_the_decision_is_0(call, tmp_path):
    (tmp_path / "out").mkdir()
    outcome = call("run", written(tmp_path), "--output", tmp_path / "out")
    assert (outcome.code, outcome.err) == (0, "")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    zeros = 100 * summary["decision"].count(0.0) / 300
    assert 5 < zeros < 95
    assert f"last decisions: {zeros:.1f} % of the 300 numbers are 0." in outcome.out
    assert summary["score"]["records"] == 120
    assert f"AUC {summary['score']['auc']:.4f}" in outcome.out


def test_rare_texts_may_count_more(call, tmp_path):
    scores = []
    for weights in ([1, 1], [1, 50]):
        loss = {
            "loss": "hinge",
            "class_weights": weights,
            "privacy": MESH["privacy"] | {"gradient_bound": 60},
        }
        folder = tmp_path / str(weights[1])
        folder.mkdir()
        (folder / "out").mkdir()
        outcome = call("run", written(folder, loss), "--output", folder / "out")
        assert (outcome.code, outcome.err) == (0, "")
        scores.append(json.loads((folder / "out" / "summary.json").read_text()))
    plain, weighted = scores
    assert plain["decision"] != weighted["decision"]
    assert {score["score"]["task"] for score in scores} == {"two classes"}


def test_numbers_are_learnt_from_sparse_records_too(call, tmp_path):
    outcome = call("run", written(tmp_path, {"loss": {"huber": 0.5}}, label={}), "--rounds", 3)
    assert outcome.code == 2
    assert outcome.err.endswith("held_out.label: must be a number, for loss huber (0.5)\n")
    path = tmp_path / "mesh.yaml"
    path.write_text(path.read_text().replace("positive: 1", "positive: null"))
    outcome = call("run", path, "--rounds", 3)
    assert (outcome.code, outcome.err) == (0, "")
    assert "RMSE" in outcome.out


def test_check_reads_the_first_records(call, tmp_path):
    assert call("check", written(tmp_path)).code == 0
    outcome = call("check", written(tmp_path, label={"positive": 7, "negative": 8}))
    assert outcome.code != 0
    assert "nodes.a.source: fits none of the first 40 records" in outcome.err
    assert "(the same in b, c)" in outcome.err
    assert call("check", written(tmp_path, path="gone.npz", shuffle=True)).code != 0
