"""`mirrormesh score`: each message of a topic is scored once, whatever dies, and nothing of it is lost."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from prometheus_client.parser import text_string_to_metric_families

from streams.bus.errors import given_by
from streams.bus.provision import provision
from streams.bus.rights import Grant, scorer
from streams.codec.topics import ScoreTopics
from streams.mesh.file import load
from streams.mesh.settings.parties import score_user
from streams.tools.score import processor
from tests.support.brokers.development import free_port
from tests.support.brokers.scoring import ScoredTopics, expected, model, record, scoring, values
from tests.support.brokers.topics import PATIENCE, until
from tests.support.brokers.users import Scored, Users, secure_mesh_file
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.metrics import samples, scraped
from tests.support.processes.command import Process
from tests.support.processes.forked import Forked, command
from tests.support.processes.mesh import wait_until
from tests.support.processes.watchdog import ServiceSocket

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def served(port):
    """The metrics of a process that scores."""
    return samples(text_string_to_metric_families(scraped("127.0.0.1", port)))


def scored_once(topics, process, count):
    """Wait until so many messages are scored, end the process, and assert that each is scored once."""
    wait_until(lambda: len(topics.numbers()) >= count)
    process.terminate()
    assert process.ends() == 0, process.log
    assert topics.numbers() == list(range(count))


def test_a_score_has_its_messages_key_headers_time_and_partition(tmp_path, broker):
    topics = ScoredTopics(broker.address)
    messages = values(100)
    messages[7], messages[8], messages[9] = None, b"{", b'{"x": 1, "fraud": 1}'
    topics.produce(messages)
    port = free_port()
    more = ["--threshold", "0.5", "--private-metrics", port]
    with ServiceSocket() as systemd:
        with systemd.given():
            process = Process(tmp_path, "score", *scoring(topics, model(tmp_path), *more))
        wait_until(lambda: len(topics.scores()) == 97)
        assert systemd.heard()[0] == "READY=1"
        wait_until(lambda: "WATCHDOG=1" in systemd.heard())
    wait_until(lambda: served(port).get(("mirrormesh_score_lag_messages",)) == 0)
    found = served(port)
    outcomes = {name: found["mirrormesh_scored_messages_total", name] for name in ("scored", "unreadable")}
    assert outcomes == {"scored": 97, "unreadable": 2}
    assert found["mirrormesh_score_latency_seconds_count",] == 100
    assert found["mirrormesh_score_model_round",] == 41
    process.terminate()
    assert process.ends() == 0, process.log
    for score in topics.scores():
        number = int(score.key())
        body = json.loads(score.value())
        wanted = expected(number)
        assert body.pop("prediction") == pytest.approx(wanted["prediction"], abs=1e-12)
        assert body.pop("probability") == pytest.approx(wanted["probability"], abs=1e-12)
        decided = "positive" if wanted["probability"] >= 0.5 else "negative"
        assert body == {"class": decided, "round": 41, "run": "run-3", "epsilon": 1.5}
        assert score.headers() == [("number", score.key())]
        assert score.timestamp()[1] == topics.began + number
        assert score.partition() == number % topics.partitions
    letters = {int(letter.key()): letter for letter in topics.letters()}
    assert sorted(letters) == [8, 9]
    assert letters[8].value() == b"{"
    headers = dict(letters[9].headers())
    assert headers["mirrormesh-reason"] == b"y: missing"
    place = (topics.input, "0", "3")
    assert tuple(headers[f"mirrormesh-{key}"].decode() for key in ("topic", "partition", "offset")) == place
    said = process.log.splitlines()[-1]
    assert said.startswith(f"{topics.input}: 97 scores in {topics.output}, 2 in {topics.dead_letters} (")
    assert said.endswith(", 1 without a record")


DEATHS = [
    ("produce", 700),
    ("flush", 2),
    ("send_offsets_to_transaction", 2),
    ("commit_transaction", 1),
    ("commit_transaction", -2),
    ("abort_transaction", 1),
]
"""Where a process dies: before a call of its producer, or behind it, in its own count from 1."""


def mortal(folder, path, arguments, environment):
    """Score in batches of 200, and die at one of these places; the first argument says which."""
    method, number = DEATHS[int(arguments[0])]

    class Mortal(Producer):
        calls = 0

    def deadly(self, *rest, **options):
        Mortal.calls += 1
        if Mortal.calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        result = getattr(Producer, method)(self, *rest, **options)
        if Mortal.calls == -number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(Mortal, method, deadly)
    if method == "abort_transaction":
        Mortal.send_offsets_to_transaction = lambda self, *_: Producer.send_offsets_to_transaction(
            self, [], b""
        )
    processor.Producer, processor.BATCH = Mortal, 200
    command(folder, path, arguments[1:], environment)


class MortalScore(Forked):
    target = staticmethod(mortal)


def test_wherever_a_process_dies_each_message_is_scored_once(tmp_path, broker):
    path, count = model(tmp_path), 3_000
    topics = [ScoredTopics(broker.address) for _ in DEATHS]
    for some in topics:
        some.produce(values(count))
    dying = [MortalScore(tmp_path, f"dying-{k}", k, *scoring(some, path)) for k, some in enumerate(topics)]
    for process in dying:
        assert process.ends() == -signal.SIGKILL, process.log
    following = [Forked(tmp_path, f"next-{k}", *scoring(some, path)) for k, some in enumerate(topics)]
    for some, process in zip(topics, following, strict=True):
        scored_once(some, process, count)


FAILURES = [
    ("produce", {"txn_requires_abort": True}),
    ("send_offsets_to_transaction", {"txn_requires_abort": True}),
    ("commit_transaction", {"txn_requires_abort": True}),
    ("commit_transaction", {"retriable": True}),
    ("commit_transaction", {"fatal": True}),
]
"""What of a producer fails at its second call, and what the client says of that."""


def failing(folder, path, arguments, environment):
    """Score in batches of 200, and go on after one of these failures; the first argument says which."""
    method, about = FAILURES[int(arguments[0])]

    class Failing(Producer):
        calls = 0

    def fail(self, *rest, **options):
        Failing.calls += 1
        if Failing.calls == 2:
            raise KafkaException(KafkaError(KafkaError._FAIL, "as a test likes it", **about))
        return getattr(Producer, method)(self, *rest, **options)

    setattr(Failing, method, fail)
    processor.Producer, processor.BATCH = Failing, 200
    command(folder, path, arguments[1:], environment)


class FailingScore(Forked):
    target = staticmethod(failing)


def test_what_was_aborted_is_scored_again_by_the_same_process(tmp_path, broker):
    path, count = model(tmp_path), 3_000
    topics = [ScoredTopics(broker.address) for _ in FAILURES]
    for some in topics:
        some.produce(values(count))
    processes = [
        FailingScore(tmp_path, f"failing-{k}", k, *scoring(some, path)) for k, some in enumerate(topics)
    ]
    for some, process in zip(topics, processes, strict=True):
        scored_once(some, process, count)


SUSPENDED = ["consumer_group_metadata", "begin_transaction", "commit_transaction"]
"""In front of which call a process is suspended, with a batch in hand."""


def suspended(folder, path, arguments, environment):
    """Score in batches of 200, and be suspended once; the first argument says where."""
    method = SUSPENDED[int(arguments[0])]
    base = Consumer if method == "consumer_group_metadata" else Producer

    class Suspended(base):
        calls = 0

    def suspend(self, *rest, **options):
        Suspended.calls += 1
        if Suspended.calls == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
        return getattr(base, method)(self, *rest, **options)

    setattr(Suspended, method, suspend)
    setattr(processor, base.__name__, Suspended)
    processor.BATCH = 200
    command(folder, path, arguments[1:], environment)


class SuspendedScore(Forked):
    target = staticmethod(suspended)

    @property
    def is_suspended(self):
        """Whether it stands still."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def held_up(folder, path, arguments, environment):
    """Score, and be held up in the middle of each batch, so that the broker answers of its first part."""

    class HeldUp(Producer):
        calls = 0

        def produce(self, *rest, **options):
            HeldUp.calls += 1
            if HeldUp.calls % 2_000 == 0:
                time.sleep(2)
            return super().produce(*rest, **options)

    processor.Producer = HeldUp
    command(folder, path, arguments, environment)


class HeldUpScore(Forked):
    target = staticmethod(held_up)


def test_one_that_is_suspended_with_a_batch_writes_nothing_of_it_when_it_goes_on(tmp_path, broker):
    path, count = model(tmp_path), 3_000
    topics = [ScoredTopics(broker.address) for _ in SUSPENDED]
    for some in topics:
        some.produce(values(count))
    sleepers = [
        SuspendedScore(tmp_path, f"sleeps-{k}", k, *scoring(some, path)) for k, some in enumerate(topics)
    ]
    wait_until(lambda: all(process.is_suspended for process in sleepers))
    others = [Forked(tmp_path, f"other-{k}", *scoring(some, path)) for k, some in enumerate(topics)]
    wait_until(lambda: all(len(some.numbers()) >= count for some in topics))
    for process in sleepers:
        os.kill(process.pid, signal.SIGCONT)
    for some in topics:
        some.produce(values(2 * count)[count:], first=count)
    wait_until(lambda: all(len(some.numbers()) >= 2 * count for some in topics))
    for process in others:
        process.terminate()
        assert process.ends() == 0, process.log
    for some in topics:  # for those that were suspended alone
        some.produce(values(2 * count + 500)[2 * count :], first=2 * count)
    wait_until(lambda: all(len(some.numbers()) >= 2 * count + 500 for some in topics))
    for some, process in zip(topics, sleepers, strict=True):
        process.terminate()
        assert process.ends() == 0, process.log
        assert some.numbers() == list(range(2 * count + 500))


def slow(folder, path, arguments, environment):
    """Score, and gather the first full batch until partitions are given back."""

    class Slow(Consumer):
        given_back = None

        def subscribe(self, topics, *, on_revoke, **callbacks):
            def give_back(consumer, partitions):
                Slow.given_back = consumer.consumer_group_metadata()
                on_revoke(consumer, partitions)

            super().subscribe(topics, on_revoke=give_back, **callbacks)

        def consume(self, number, seconds):
            messages = super().consume(number, seconds)
            while messages and Slow.given_back in {None, self.consumer_group_metadata()}:
                messages += super().consume(number, 0.1)  # until the next owner has them
            return messages

    processor.Consumer = Slow
    command(folder, path, arguments, environment)


class SlowScore(Forked):
    target = staticmethod(slow)


def test_a_partition_that_is_given_back_while_a_batch_is_read_takes_its_messages_along(tmp_path, broker):
    topics, path = ScoredTopics(broker.address, partitions=6), model(tmp_path)
    topics.produce(values(2_000))
    first = SlowScore(tmp_path, "slow", *scoring(topics, path))
    wait_until(lambda: f"as group score.banks.{topics.input}" in first.log)
    second = Forked(tmp_path, "second", *scoring(topics, path))
    wait_until(lambda: len(topics.numbers()) >= 2_000)
    topics.produce(values(2_600)[2_000:], first=2_000)
    wait_until(lambda: len(topics.numbers()) >= 2_600)
    for process in (first, second):
        process.terminate()
        assert process.ends() == 0, process.log
    assert topics.numbers() == list(range(2_600))


def test_processes_share_the_partitions_come_and_go_and_one_that_was_taken_for_dead_writes_nothing(
    tmp_path, broker
):
    topics, path, count = ScoredTopics(broker.address, partitions=6), model(tmp_path), 0

    def more(number):
        nonlocal count
        topics.produce(values(count + number)[count:], first=count)
        count += number

    more(500)
    first = Forked(tmp_path, "first", *scoring(topics, path))
    wait_until(lambda: len(topics.numbers()) == count)
    second = Forked(tmp_path, "second", *scoring(topics, path))
    for _ in range(20):  # while partitions move
        more(100)
    wait_until(lambda: len(topics.numbers()) >= count)
    os.kill(first.pid, signal.SIGSTOP)
    more(1_000)
    wait_until(lambda: len(topics.numbers()) >= count)  # the second has all partitions
    os.kill(first.pid, signal.SIGCONT)
    more(1_000)
    wait_until(lambda: len(topics.numbers()) >= count)
    second.terminate()
    assert second.ends() == 0, second.log
    more(500)
    wait_until(lambda: len(topics.numbers()) >= count)
    first.terminate()
    assert first.ends() == 0, first.log
    assert topics.numbers() == list(range(count))


def test_messages_of_an_aborted_transaction_are_not_scored(tmp_path, broker):
    topics, path = ScoredTopics(broker.address), model(tmp_path)
    producer = Producer({"bootstrap.servers": topics.address, "transactional.id": topics.input})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topics.input, json.dumps(record(1)), b"1")
    producer.flush(PATIENCE)
    producer.abort_transaction(PATIENCE)
    topics.produce(values(10))
    process = Forked(tmp_path, "score", *scoring(topics, path))
    scored_once(topics, process, 10)


def test_at_least_once_loses_nothing_when_it_dies(tmp_path, broker):
    topics, path = ScoredTopics(broker.address), model(tmp_path)
    topics.produce(values(3_000))
    dying = MortalScore(tmp_path, "dying", 1, *scoring(topics, path, "--at-least-once"))
    assert dying.ends() == -signal.SIGKILL, dying.log
    process = Forked(tmp_path, "score", *scoring(topics, path, "--at-least-once"))
    wait_until(lambda: len(set(topics.numbers())) == 3_000)
    process.terminate()
    assert process.ends() == 0, process.log
    assert set(topics.numbers()) == set(range(3_000))


@pytest.mark.parametrize("held", [Forked, HeldUpScore], ids=["at once", "held up"])
@pytest.mark.parametrize("how", [[], ["--at-least-once"]])
def test_scores_that_their_topic_refuses_end_the_process_and_are_none_less_later(tmp_path, broker, how, held):
    topics, path = ScoredTopics(broker.address, partitions=1), model(tmp_path)
    topics.produce(values(3_000))
    admin = AdminClient({"bootstrap.servers": broker.address})

    def limit(size):
        """Let the output take records of so many bytes."""
        entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topics.output, incremental_configs=[entry])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        altered.result(PATIENCE)

    limit(50)
    process = held(tmp_path, "refused", *scoring(topics, path, *how))
    assert process.ends() == 1, process.log
    line = process.log.splitlines()[-1]
    assert line.startswith(f"{topics.output}: "), line
    assert "larger than" in line or "too large" in line, line
    limit(2**20)
    scored_once(topics, Forked(tmp_path, "next", *scoring(topics, path, *how)), 3_000)


def test_an_output_of_other_partitions_goes_by_key(tmp_path, broker):
    topics, path = ScoredTopics(broker.address, outputs=2), model(tmp_path)
    topics.produce(values(200))
    process = Forked(tmp_path, "score", *scoring(topics, path))
    wait_until(lambda: len(topics.numbers()) >= 200)
    process.terminate()
    assert process.ends() == 0, process.log
    assert set(Counter(score.partition() for score in topics.scores())) == {0, 1}


def test_a_message_that_no_topic_would_take_again_stops_nothing(tmp_path, broker):
    topics, path = ScoredTopics(broker.address, partitions=1), model(tmp_path)
    producer = Producer({"bootstrap.servers": topics.address, "batch.num.messages": 1})
    body = json.dumps(record(1)).encode()
    producer.produce(topics.input, body, b"1", headers=[("long", b"x" * 700_000)])
    producer.produce(topics.input, b"{", b"2" * 700_000)
    producer.produce(topics.input, b"{" * 700_000, b"3")
    producer.produce(topics.input, body, b"4")
    assert producer.flush(PATIENCE) == 0
    process = Forked(tmp_path, "score", *scoring(topics, path))
    wait_until(lambda: topics.numbers() == [4])
    process.terminate()
    assert process.ends() == 0, process.log
    letters = [(letter.key(), letter.value(), dict(letter.headers())) for letter in topics.letters()]
    assert [(key, value) for key, value, _ in letters] == [(None, body), (None, b"{"), (b"3", None)]
    assert letters[0][2]["mirrormesh-reason"] == b"its key and headers are too long to be written again"
    assert all("long" not in headers for _, _, headers in letters)


def test_it_follows_a_nodes_decisions(tmp_path, broker):
    """The newest decision counts, of the newest run or of the run that is named; or the newest average."""
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    source = {"kind": "json-lines", "path": str(tmp_path / "r.jsonl"), "schema": schema}
    path = small_mesh_file(tmp_path, broker.address, sources=dict.fromkeys("abc", source), loss="squared")
    file = load(path)
    node = next(iter(file.mesh.nodes))
    provision(file)
    topics = ScoredTopics(broker.address)
    decisions = Producer({"bootstrap.servers": broker.address})

    def decide(run, round, x, **average):
        value = json.dumps({"run": run, "round": round, "x": x, "decided": 0.0} | average)
        decisions.produce(file.data_topics(node).decisions, value, partition=0)
        assert decisions.flush(PATIENCE) == 0

    place = ["--input", topics.input, "--output", topics.output]
    processes = [
        Forked(tmp_path, "newest", "score", path, node, *place),
        Forked(
            tmp_path, "named", "score", path, node, *place, "--run", "run-1", "--group", f"b.{topics.input}"
        ),
    ]

    def scored(count):
        wait_until(lambda: len(topics.scores()) >= count)
        bodies = [json.loads(score.value()) for score in topics.scores()]
        return sorted((body["run"], body["round"], body["prediction"]) for body in bodies)

    topics.produce([b'{"x": 1, "y": 2}'])
    wait_until(lambda: all("there is no decision yet" in process.log for process in processes))
    assert topics.scores() == []
    decide("run-1", 5, [1.0, 1.0])
    assert scored(2) == [("run-1", 5, 3.0)] * 2
    decide("run-2", 1, [0.0, 1.0])
    decide("run-2", 2, "no vector")
    decide("run-2", 3, [7.0, 7.0, 7.0])
    topics.produce([b'{"x": 1, "y": 2}'], first=1)
    assert scored(4) == [("run-1", 5, 3.0)] * 3 + [("run-2", 1, 2.0)]
    for process in processes:
        process.terminate()
        assert process.ends() == 0, process.log
    decide("run-2", 4, [0.0, 1.0], average=[2.0, 0.0])
    decide("run-2", 5, [0.0, 3.0])  # only some decisions carry the average
    average = ["--vector", "average", "--group", f"c.{topics.input}"]
    processes = [Forked(tmp_path, "average", "score", path, node, *place, *average)]
    assert scored(6) == [("run-1", 5, 3.0)] * 3 + [("run-2", 1, 2.0)] + [("run-2", 4, 2.0)] * 2
    processes[0].terminate()
    assert processes[0].ends() == 0, processes[0].log
    body = json.loads(topics.scores()[-1].value())
    assert body["epsilon"] is None  # the broker carries the data too, and the noise is simulated


def test_mistakes_are_a_line_each(tmp_path, broker):
    topics, path = ScoredTopics(broker.address), model(tmp_path)

    def line(*arguments):
        process = Forked(tmp_path, "mistake", "score", *arguments)
        assert process.ends() == 2, process.log
        said = process.log.splitlines()[-1]
        process.path.unlink()
        return said

    place = ["--servers", topics.address, "--model", path]
    assert line(*place, "--input", topics.input, "--output", topics.input) == (
        f"--output {topics.input}: scores, or their dead letters, would be written into --input: "
        "must be another topic"
    )
    assert line(*place, "--input", topics.input, "--output", "nowhere") == (
        f"--output: no topic nowhere on {topics.address}: must be created first"
    )
    assert line(*place, "--input", topics.input, "--output", topics.input.replace("new", "x"))
    columns = model(
        tmp_path, source={"kind": "csv", "schema": {"features": {"x": "number"}, "label": {"column": "z"}}}
    )
    assert "makes 1 features" in line(
        *place, "--input", topics.input, "--output", topics.output, "--columns", "x,z"
    )
    assert columns == path
    both = line("--input", topics.input, "--output", topics.output)
    assert both == "--model: must be given, or a mesh file and a node of it"


def test_a_user_of_its_own_needs_what_provision_gives_it_and_says_what_is_missing(
    tmp_path, secure_broker, monkeypatch
):
    scored = Scored()
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    source = {"kind": "json-lines", "path": str(tmp_path / "r.jsonl"), "schema": schema}
    sources = dict.fromkeys("abc", source)
    path = secure_mesh_file(tmp_path, secure_broker, sources=sources, own={"a": scored.own}, loss="squared")
    users = Users(path, secure_broker, monkeypatch)
    node, file = next(iter(users.file.mesh.nodes)), users.file
    provision(file)
    users.provision()
    admin = users.client("admin")
    scored.create(admin.admin)
    user = score_user(node)
    access = scorer(ScoreTopics(file.mesh.name, node, scored.input, scored.output), file.data_topics(node))
    until(lambda: not users.wrong(user, access))
    users.be(user)
    process = Process(tmp_path, "score", "score", path, node)
    wait_until(lambda: "there is no decision yet" in process.log)
    decision = {"run": "run-1", "round": 5, "x": [1.0, 1.0], "decided": 0.0}
    admin.send(file.data_topics(node).decisions, json.dumps(decision).encode())
    admin.send(scored.input, b'{"x": 1, "y": 2}')
    admin.send(scored.input, b"{")
    assert json.loads(admin.read(scored.output, 1)[0])["prediction"] == 3.0
    assert admin.read(scored.letters, 1) == [b"{"]
    process.terminate()
    assert process.ends() == 0, process.log

    def ended(*lacking):
        """The last line of a process without these rights."""
        users.without(*(Grant(f"User:{user}", *rule) for rule in lacking))
        users.be(user)
        process = Process(tmp_path, "refused", "score", path, node)
        assert process.ends() == 1, process.log
        line = process.log.splitlines()[-1]
        process.path.unlink()
        users.provision()
        until(lambda: not users.wrong(user, access))
        return line

    given = f"({given_by(user)})"
    servers, group = f"{secure_broker.address}: ", scored.group(file)
    may_not = "these credentials may not"
    assert ended(("topic", scored.output, "literal", "Write")) == (
        f"{servers}{scored.output}: {may_not} write {given}"
    )
    assert ended(("topic", scored.input, "literal", "Read")) == (
        f"{servers}{scored.input}: {may_not} read {given}"
    )
    assert ended(("group", group, "literal", "Read")) == (
        f"{servers}group {group}: {may_not} commit offsets {given}"
    )
    ids = [("transactional id", f"{group}.", "prefix", operation) for operation in ("Write", "Describe")]
    assert ended(*ids) == f"{servers}transactional ids that begin with {group}.: {may_not} write {given}"
