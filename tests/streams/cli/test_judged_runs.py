"""`run` says whether what it learnt is any good: fraud that it cannot learn, a coin, and a signal."""

import csv
import json
import re

import numpy as np
import pytest

MESH = """
mesh:
  name: payments
  run: run-1
  nodes: [a, b, c]
  dimension: {dimension}
  algorithm:
    name: dpdo-nc
    mirror_map: euclidean
    constraint: {{l2-ball: 10}}
    step_size: {{rule: inverse-sqrt, a: 30}}
  loss: logistic
  slots: {{by: count, size: {size}}}
  privacy: {{mechanism: {mechanism}, epsilon: 1, noise: simulated, gradient_bound: 2}}
  topology: {{graph: complete}}
  rounds: {rounds}
  seed: {seed}
nodes:
"""
NODE = """  {name}:
    source:
      kind: csv
      path: {name}.csv
      schema:
        features:
          amount: {{bounds: [0, 10]}}
          night: {{bounds: [0, 1]}}
{merchant}        intercept: true
        norm: 1
        label: {{column: fraud, positive: "1", negative: "0"}}
"""


def payments(folder, *, records, rate, signal, merchants=0, mechanism="laplace", size=200, seed=0):
    """Write a mesh of three banks, whose fraud is of large sums at night, with the odds' `signal`."""
    random = np.random.default_rng(seed)
    columns = {"dimension": merchants + 3, "size": size, "rounds": records // size}
    text = MESH.format(**columns, mechanism=mechanism, seed=seed)
    merchant = f"          merchant: {{hashed: {merchants}}}\n" if merchants else ""
    for name in "abc":
        text += NODE.format(name=name, merchant=merchant)
        amount, night = random.exponential(size=records).clip(0, 10), random.random(records) < 0.3
        odds = np.log(rate / (1 - rate)) - signal + signal * (0.5 * amount + night)
        fraud = random.random(records) < 1 / (1 + np.exp(-odds))
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["amount", "night", "merchant", "fraud"])
            shops = random.integers(0, max(1, merchants), records)
            writer.writerows(zip(amount.round(3), night.astype(int), shops, fraud.astype(int), strict=True))
    path = folder / "payments.yaml"
    path.write_text(text)
    return path


BY_RULE = """
mesh:
  name: payments
  run: run-1
  rule: {rule}
  nodes: [a, b, c]
  features:
    features:
      amount: {{bounds: [0, 10]}}
      night: {{bounds: [0, 1]}}
      merchant: {{hashed: 250}}
    intercept: outside
    norm: 1
    label: {{column: fraud, positive: "1", negative: "0"}}
  loss: hinge
  privacy: {{epsilon: 1, delta: 1.0e-6, noise: simulated}}
  topology: {{graph: complete}}
nodes:
  a: {{source: {{kind: csv, path: a.csv}}}}
  b: {{source: {{kind: csv, path: b.csv}}}}
  c: {{source: {{kind: csv, path: c.csv}}}}
"""


@pytest.mark.slow
def test_fraud_is_called_too_rare_before_the_run_and_ten_times_as_much_is_not(call, tmp_path):
    """30 positives a bank, for 252 numbers to learn."""
    rule = {"version": 1, "records": 10_000, "members": 3}
    text = "no run surely beats guessing at these settings"
    plans = {}
    for rate in (0.003, 0.03):
        path = payments(tmp_path, records=10_000, rate=rate, signal=1.0)
        path.write_text(BY_RULE.format(rule=json.dumps(rule)))
        plans[rate] = call("plan", path, "--estimate", "--positive", rate)
        assert (plans[rate].code, plans[rate].err) == (0, "")
    assert text in plans[0.003].out
    needs = r"a middling signal needs at least about ([\d,]+) records a node of which 0\.3 % are positive"
    assert int(re.search(needs, plans[0.003].out)[1].replace(",", "")) > 20_000
    assert text not in plans[0.03].out
    assert all(": better than guessing: AUC " in line for line in verdicts(call("run", path)))


def verdicts(outcome):
    return [line for line in outcome.out.splitlines() if line.startswith("Verdict of ")]


@pytest.mark.slow
def test_fraud_of_which_nothing_can_be_learnt_is_called_that(call, tmp_path):
    mesh = payments(tmp_path, records=18_000, rate=0.002, signal=1.0, merchants=500)
    outcome = call("run", mesh, "--output", "out")
    lines = verdicts(outcome)
    assert len(lines) == 3
    for line in lines:
        assert ": no better than guessing: AUC " in line or ": worse than guessing: AUC " in line
        assert "records of the rarer class for 503 numbers to learn" in line
        assert "times as long as a slot's signal" in line
    for node in json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]:
        assert 20 < node["verdict"]["closing"]["positives"] < 90
        assert node["verdict"]["against_guessing"] != "better than guessing"


@pytest.mark.parametrize("mechanism", ["laplace", "none"])
@pytest.mark.parametrize("size", [200, 2_000])
def test_a_fair_coin_is_no_better_than_guessing(call, tmp_path, mechanism, size):
    mesh = payments(tmp_path, records=4_000, rate=0.5, signal=0.0, mechanism=mechanism, size=size)
    lines = verdicts(call("run", mesh))
    assert len(lines) == 3
    assert all("no better than guessing: AUC " in line for line in lines)


@pytest.mark.parametrize("size", [200, 2_200])
def test_a_signal_is_found(call, tmp_path, size):
    mesh = payments(tmp_path, records=4_400, rate=0.2, signal=2.0, mechanism="none", size=size)
    outcome = call("run", mesh, "--output", "out")
    lines = verdicts(outcome)
    assert all(": better than guessing: AUC 0." in line for line in lines)
    of_own = "on the records that it learnt from, which may flatter it"
    assert all((of_own in line) == (size == 2_200) for line in lines)  # two slots say nothing before
    assert "likeliest" not in outcome.out
    assert "Predicted before learning; each node's own secret" in outcome.out
    path = tmp_path / "out" / "summary.json"
    assert path.stat().st_mode & 0o077 == 0
    for node in json.loads(path.read_text())["nodes"]:
        verdict = node["verdict"]
        assert verdict["before"]["records"] == 4_400 - size
        assert ("low" in verdict["before"]["auc"]) == (size == 200)
        assert verdict["closing"]["records"] == 4_400
        assert verdict["judgement"] in outcome.out


def test_where_there_is_no_label_there_is_no_verdict(call, mesh, tmp_path):
    outcome = call("run", mesh, "--output", "out")
    assert not verdicts(outcome)
    assert "Predicted" not in outcome.out
    assert "verdict" not in (tmp_path / "out" / "summary.json").read_text()


def test_no_file_that_others_get_holds_a_verdict(call, tmp_path):
    mesh = payments(tmp_path, records=800, rate=0.2, signal=2.0)
    call("run", mesh, "--output", "out")
    assert "judgement" in (tmp_path / "out" / "summary.json").read_text()
    for name in ("model.json", "model.npz", "rounds.csv"):
        content = (tmp_path / "out" / name).read_bytes()
        assert b"guessing" not in content
        assert b"verdict" not in content


HELD_OUT = """held_out:
  kind: csv
  path: c.csv
  schema:
    features:
      amount: {bounds: [0, 10]}
      night: {bounds: [0, 1]}
    intercept: true
    norm: 1
    label: {column: fraud, positive: "1", negative: "0"}
"""


@pytest.mark.parametrize(
    ("signal", "words"), [(2.0, "better than guessing"), (0.0, "no better than guessing")]
)
def test_records_that_are_held_out_decide_in_run_and_predict(call, tmp_path, signal, words):
    mesh = payments(tmp_path, records=4_000, rate=0.4, signal=signal, mechanism="none")
    text = mesh.read_text().replace("[a, b, c]", "[a, b]")
    mesh.write_text(text[: text.index("  c:\n")] + HELD_OUT)
    ran = call("run", mesh, "--output", "out")
    lines = verdicts(ran)
    assert len(lines) == 2
    assert ("Learnt" in ran.out) == (words == "better than guessing")
    assert "ean of the nodes' last decisions: (" in ran.out
    assert all(
        f": {words}: AUC " in line and "on records that it never learnt from" in line for line in lines
    )
    outcome = call("predict", tmp_path / "out" / "model.json", tmp_path / "c.csv", "--output", "p.csv")
    assert f"Verdict on the model: {words}: AUC " in outcome.out + outcome.err
