"""The second walk: the page "From an existing topic to scores" as it is read; then with kills."""

import json
import math
import sys
from collections import Counter, defaultdict
from io import BytesIO

import pytest
import yaml

from streams.tools.broker.broker import start
from tests.support.brokers.avro import fastavro, need_fastavro
from tests.support.brokers.forgetting import cut_off, stepped_by
from tests.support.brokers.registry import MortalRegistry
from tests.support.brokers.scoring import committed
from tests.support.oracles.algorithms import Reference
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, wait_until
from tests.support.published.page_blocks import Shell, commands, run_blocks
from tests.support.published.pages import ROOT, joined

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = ROOT / "docs" / "topic-to-scores.md"
BROKER, REGISTRY = "127.0.0.1:19092", "http://127.0.0.1:8081/apis/ccompat/v7"
ELSEWHERE = {"mirrormesh broker start", "mirrormesh broker stop"}


class Walk:
    """Types a page's commands in one folder; what runs until it is stopped has a terminal of its own."""

    def __init__(self, folder, address, registry):
        self.folder, self.address, self._registry = folder, address, registry
        self.said, self.running = {}, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()

    def page(self):
        """Do what the page says."""
        run_blocks(PAGE, self.folder, Shell(self._is_left_out, self.run), self.edit)

    def edit(self, text):
        """The text with the addresses of this test."""
        return text.replace(BROKER, self.address).replace(REGISTRY, self._registry)

    def run(self, words):
        """Type a line."""
        words = [self.edit(word) for word in words]
        label = "-".join(words[:2]).replace("/", "-")
        process = (Process if words[0] == "mirrormesh" else Script)(self.folder, label, *words[1:])
        if words[1] == "score":
            self.running.append(process)
            return
        try:
            assert process.ends() == 0, f"{words}: {process.log}"
        finally:
            process.kill()
        self.said[" ".join(words[:2])] = process.log

    def _is_left_out(self, line):
        (words, *_) = commands(line)
        return line in ELSEWHERE or words[0] == "docker"


class Script(Process):
    """A program of the page's."""

    program = (sys.executable,)


MISTAKES = [
    ("check banks.yaml", "payment_id", "payment_nr"),
    ("check banks.yaml", "20s", "45d"),
    ("score banks.yaml north --output north.payments", "", ""),
    ("score banks.yaml north --output north.scored", "", ""),
    ("score banks.yaml north --model fraud.json", "log: [1, 10000]", "log: [1, 1000]"),
]
"""A command, and what its files say in place of what the page says."""


def mistakes(walk):
    """Make the page's mistakes after its walk; return the lines that do not stand on the page as they are."""
    walk.run(["mirrormesh", "model", "banks.yaml", "--output", "fraud"])
    table = joined(walk.edit(PAGE.read_text()).replace("`", ""))
    files = {path: path.read_text() for path in walk.folder.glob("*.yaml")}
    unexpected = []
    for command, old, new in MISTAKES:
        for path, text in files.items():
            path.write_text(text.replace(old, new) if old else text)
        process = Process(walk.folder, "mistake", *command.split())
        assert process.ends() == 2, process.log
        line = process.log.splitlines()[0].removeprefix("banks.yaml: ").split('"45d": ')[-1]
        unexpected += [] if line in table else [line]
        assert "Traceback" not in process.log
        process.path.unlink()
    for path, text in files.items():
        path.write_text(text)
    return unexpected


def auc(scores, positives):
    """The chance that a positive's score is above that of another one."""
    high = [score for key, score in scores.items() if key in positives]
    low = [score for key, score in scores.items() if key not in positives]
    return sum((a > b) + (a == b) / 2 for a in high for b in low) / (len(high) * len(low))


def test_who_walks_from_an_existing_topic_to_scores_has_each_payment_scored_once(
    tmp_path, new_broker, schema_registry, monkeypatch
):
    need_fastavro()
    monkeypatch.chdir(tmp_path)
    address = new_broker("walk").address
    with Walk(tmp_path, address, schema_registry[0]) as walk:
        walk.page()
        said, (score,) = walk.said, walk.running
        sentence = "together with its labels is protected with epsilon = 1 (pure)"
        for command in ("plan", "up"):
            promises = [line for line in said[f"mirrormesh {command}"].splitlines() if sentence in line]
            assert [name for name in SHAPE["nodes"] if f"of node {name}'s" in " ".join(promises)] == SHAPE[
                "nodes"
            ]
            assert joined(promises[0].partition("guarantee:")[2] or promises[0]) in joined(PAGE.read_text())
        assert "1 scheduler, 3 nodes, 0 feeders, 1 scorer" in said["mirrormesh up"]
        assert "scored     north.payments: " in said["mirrormesh up"]
        assert "not fed" not in said["mirrormesh up"]
        assert "the run is over: round 50 was its last" in said["mirrormesh up"]
        assert "Malformed" not in said["mirrormesh up"]
        assert said["python scores.py"].startswith("4,300 payments are scored, ")
        score.terminate()
        assert score.ends() == 0, score.log
        assert mistakes(walk) == []
    payments = {message.key(): message for message in committed(address, "north.payments")}
    scores = committed(address, "north.scores")
    assert Counter(message.key() for message in scores) == Counter(payments.keys())
    chargebacks = {message.key() for message in committed(address, "north.chargebacks")}
    last = max(message.timestamp()[1] for message in payments.values())
    learnt = {
        message.key(): json.loads(message.value())["probability"]
        for message in scores
        if message.timestamp()[1] == last
    }
    assert len(learnt) == 300
    assert auc(learnt, chargebacks) > 0.6


SIZE, ROUNDS, EPSILON = 80, 40, 1
SHAPE = {
    "nodes": ["north", "south", "west"],
    "dimension": 6,
    "algorithm": {
        "name": "dpdo-nc",
        "mirror_map": "euclidean",
        "constraint": {"l2-ball": 20},
        "step_size": {"rule": "inverse-sqrt", "a": 20},
    },
    "loss": "logistic",
    "slots": {"size": SIZE},
    "privacy": {"mechanism": "laplace", "epsilon": EPSILON, "gradient_bound": 2, "on": "gradient"},
    "seed": 0,
}
"""What the page's mesh file says, and its defaults, as the reference reads it."""


def with_kills(path):
    """Change the page's mesh file: noise that can be recounted, predictions, a shorter wait for labels."""
    tree = yaml.safe_load(path.read_text())
    tree["mesh"] |= {"rounds": ROUNDS, "round_timeout": "none", "silence": 60}
    tree["mesh"]["privacy"]["noise"] = "simulated"
    for own in tree["nodes"].values():
        own["predictions"] = True
        own["source"]["labels"]["after"] = "5s"
    path.write_text(yaml.safe_dump(tree))


def features(value, schema):
    """What payment.yaml makes of a payment."""
    payment = fastavro.schemaless_reader(BytesIO(value[5:]), schema)
    customer = payment["customer"]
    row = [min(max(math.log(payment["amount"]) / math.log(10_000), 0.0), 1.0)]
    row += [float(customer["country"] == country) for country in ("DE", "FR", "IT")]
    row += [(customer["age"] - 18) / 72, 1.0]
    return [v / max(1.0, math.hypot(*row)) for v in row]


class Recount:
    """What one bank's topics hold, and what its node must have made of it."""

    def __init__(self, address, bank, schema):
        self.payments = committed(address, f"{bank}.payments")
        charged = {message.key() for message in committed(address, f"{bank}.chargebacks")}
        self.rows = {message.key(): features(message.value(), schema) for message in self.payments}
        self.records = {
            (message.partition(), message.offset()): (
                self.rows[message.key()],
                1.0 if message.key() in charged else -1.0,
            )
            for message in self.payments
        }
        self.decisions, self.places = defaultdict(list), defaultdict(set)
        for message in committed(address, f"decisions.banks.{bank}"):
            decision = json.loads(message.value())
            self.decisions[decision["round"]].append(decision["x"])
        for message in committed(address, f"predictions.banks.{bank}"):
            prediction = json.loads(message.value())
            self.places[prediction["round"]].add((prediction["partition"], prediction["offset"]))

    @property
    def learnt(self):
        """The records of each round, one round after the other."""
        return [self.records[place] for round in range(1, ROUNDS + 1) for place in self.places[round]]


class Kills:
    """A mesh, two processes that score, their broker and registry: each kind is killed again and again."""

    def __init__(self, walk, mesh, broker, registry):
        self.walk, self.mesh, self.broker, self.registry = walk, mesh, broker, registry
        self._score = ["score", mesh.path, "north"]

    def lived_through(self):
        """Run all of it, while payments come."""
        mesh = self.mesh
        mesh.scheduler()
        mesh.nodes()
        for label in ("score", "another score"):
            mesh.start(label, *self._score)
        wait_until(lambda: self.stepped("north") >= 3)
        self.again("north")
        self.again("score")
        wait_until(lambda: self.stepped("north") >= 6)
        self.without_registry()
        wait_until(lambda: self.stepped("south") >= 8)
        self.again("scheduler")
        for name, label in (("south", "another score"), ("north", "score"), ("west", "another score")):
            self.pay()
            self.again(label)
            self.again(name)
        self.without_broker()
        self.again("scheduler")
        mesh.finish("scheduler", *mesh.file.mesh.nodes)
        wait_until(lambda: self.scores() >= ROUNDS * SIZE)
        for label in ("score", "another score"):
            mesh.processes[label].terminate()
            assert mesh.processes[label].ends() == 0, mesh.processes[label].log

    def without_registry(self):
        """Kill the registry, and start it when a node and a process that scores have waited for it."""
        self.registry.kill()
        self.again("south", "score")
        self._wait_for("the schema registry is away", "south", "score")
        self.registry.start()

    def without_broker(self):
        """Kill the broker with scores on their way, and start it when each kind has waited for it."""
        self.pay()
        stepped = self.stepped("north")
        cut_off(self.broker)
        self.again("scheduler", "south", "score")
        self._wait_for("waiting for the broker", "scheduler", "south", "score")
        start(self.broker.folder, self.broker.port)
        wait_until(lambda: self.stepped("north") > stepped)

    def pay(self):
        """Produce payments, and wait until one is scored."""
        before = self.scores()
        self.walk.run(["python", "banks.py", "pay", str(ROUNDS * SIZE // 8)])
        wait_until(lambda: self.scores() > before)

    def again(self, *labels):
        """Kill processes, and start them."""
        for label in labels:
            self.mesh.processes[label].kill()
            if label in self.mesh.file.mesh.nodes:
                self.mesh.node(label)
            else:
                words = ["scheduler", self.mesh.path] if label == "scheduler" else self._score
                self.mesh.start(label, *words)

    def stepped(self, name):
        """The round that a node has stepped."""
        return stepped_by(self.mesh.folder / "state" / f"{name}.journal")

    def scores(self):
        """How many scores are committed."""
        return len(committed(self.walk.address, "north.scores"))

    def _wait_for(self, words, *labels):
        processes = [self.mesh.processes[label] for label in labels]
        wait_until(lambda: all(words in process.log for process in processes))


def test_kills_of_every_process_lose_and_double_nothing(tmp_path, new_broker, monkeypatch):
    need_fastavro()
    monkeypatch.chdir(tmp_path)
    broker = new_broker("kills")
    address = broker.address
    with MortalRegistry(tmp_path) as registry, Walk(tmp_path, address, registry.url) as walk:
        run_blocks(PAGE, tmp_path, lambda _: None, walk.edit)
        with_kills(tmp_path / "banks.yaml")
        walk.run(["python", "banks.py", "create"])
        walk.run(["python", "banks.py", "pay", str(ROUNDS * SIZE // 2)])
        with LiveMesh(tmp_path / "banks.yaml") as mesh:
            Kills(walk, mesh, broker, registry).lived_through()
    page = {}
    exec(compile((tmp_path / "banks.py").read_text(), "banks.py", "exec"), page)  # noqa: S102 # the page's own
    schema = fastavro.parse_schema(page["PAYMENT"])
    banks = {name: Recount(address, name, schema) for name in SHAPE["nodes"]}

    for bank in banks.values():  # each payment is in one round
        learnt = Counter(place for places in bank.places.values() for place in places)
        assert learnt == Counter(bank.records.keys())
        assert {len(places) for places in bank.places.values()} == {SIZE}

    weights = [{i: dict.fromkeys(banks, 1 / 3) for i in banks}] * ROUNDS
    records = {name: bank.learnt for name, bank in banks.items()}
    reference = Reference(SHAPE).run(records, weights)
    for name, bank in banks.items():  # with the label that it had by then
        for round in range(1, ROUNDS + 1):
            assert bank.decisions[round][-1] == pytest.approx(reference.decisions[name, round], abs=1e-6)

    north, scores = banks["north"], committed(address, "north.scores")
    assert Counter(score.key() for score in scores) == Counter(payment.key() for payment in north.payments)
    assert committed(address, "north.scores.deadletter") == []
    for score in scores:
        value, row = json.loads(score.value()), north.rows[score.key()]
        answers = [sum(a * b for a, b in zip(x, row, strict=True)) for x in north.decisions[value["round"]]]
        assert any(value["prediction"] == pytest.approx(answer, abs=1e-9) for answer in answers)
