"""A feed as a process of its own: killed, asked to stop, without a broker."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing, contextmanager, suppress

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streams.bus.logs import Logs
from streams.tools.broker.broker import start
from tests.support.brokers.development import free_ports
from tests.support.brokers.feeding import Feeding, row, rows
from tests.support.brokers.topics import PATIENCE, until
from tests.support.nodes.metrics import probed, samples, scraped

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COMMAND = "import typer; from streams.cli.feed import feed; typer.run(feed)"
MANY = 60_000


@pytest.fixture
def feeding(broker, tmp_path):
    return Feeding(tmp_path, broker.address)


@pytest.fixture
def process(tmp_path):
    """Start `mirrormesh feed`; it is ended with the test."""
    processes = []

    def begin(feeding, *arguments):
        path = feeding.file.path
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(path), feeding.name, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return processes[-1]

    yield begin
    for one in processes:
        one.kill()
        one.communicate()


def until_fed(feeding, count):
    """Wait until the topic holds so many records."""
    with closing(Logs(feeding.broker)) as logs:
        until(lambda: logs.span(feeding.topics.records)[1] >= count)


def end_of(feeding):
    """How many records the topic holds."""
    with closing(Logs(feeding.broker)) as logs:
        return logs.span(feeding.topics.records)[1]


def without_end():
    """Records as those of `rows`: no feed is so fast that it has come to their end."""
    return (row(number, number) for number in itertools.count(1))


@contextmanager
def poured(process, lines):
    """Write lines to the process's standard input meanwhile, all of them or as long as it reads."""

    def pour():
        with suppress(BrokenPipeError):
            process.stdin.writelines(line + b"\n" for line in lines)
            process.stdin.flush()

    pouring = threading.Thread(target=pour)
    pouring.start()
    try:
        yield
    finally:
        pouring.join(PATIENCE)
    assert not pouring.is_alive()


def ended(process):
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out.decode(), err.decode()


def test_killed_again_and_again_it_feeds_each_line_once(feeding, process):
    lines = rows(MANY)
    lines[::100] = [b"{"] * len(lines[::100])
    feeding.provision().write(lines)
    for part in range(1, 5):
        one = process(feeding)
        until_fed(feeding, part * MANY // 8)
        one.kill()
        one.wait()
    assert feeding.file is not None
    code, out, _ = ended(process(feeding))
    assert code == 0
    assert f"to {MANY:,})" in out
    assert feeding.numbers() == list(range(1, MANY + 1))
    assert feeding.values() == [b"" if line == b"{" else line for line in lines]
    letters = [letter["line"] for letter in feeding.letters()]
    assert sorted(set(letters)) == list(range(1, MANY + 1, 100))
    assert len(letters) <= len(set(letters)) + 4  # one may be there twice for each kill


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_order_and_what_it_told_is_there(feeding, process, number, code):
    one = process(feeding.provision(), "-")
    with poured(one, without_end()):
        until_fed(feeding, 1001)
        one.send_signal(number)
        one.wait(PATIENCE)
    returned, out, err = ended(one)
    assert (returned, err) == (code, "")
    held = end_of(feeding)
    assert f"fed {held:,} records (lines 1 to {held:,}), 0 bad" in out
    feeding.write(rows(held + 100))
    assert feeding().records == 100
    assert feeding.values() == rows(held + 100)


def test_malformed_records_are_a_line_and_code_3_if_they_are_the_most(feeding, process):
    bad = b'{"x": "1,5", "y": 1, "z": 2}'
    feeding.provision().write([*rows(98), bad, bad, *[bad] * 103])
    returned, out, err = ended(process(feeding, "--records", 100))
    assert (returned, err) == (0, "")
    assert out.splitlines()[1:] == [f"Malformed records: {feeding.name} 2 of 100 (x: a decimal comma)."]
    returned, out, err = ended(process(feeding))  # what it fed itself counts
    line = f"Malformed records: {feeding.name} 103 of 103 (x: a decimal comma)."
    assert (returned, out.splitlines()[1:], err) == (3, [line], f"{line}\n")
    assert ended(process(feeding))[0] == 0
    assert {letter["reason"] for letter in feeding.letters()} == {"x: a decimal comma"}


def test_standard_input_without_a_record_is_no_success(feeding, process):
    one = process(feeding.provision(), "-")
    returned, out, err = ended(one)
    assert (returned, out) == (1, "")  # 2 by the command line, which makes a line of it
    assert "standard input held no record" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_standard_input_is_fed_as_it_comes_and_a_signal_ends_the_wait(feeding, process, number, code):
    feeding.provision()
    one = process(feeding, "-")
    for part in (rows(2), [row(7)]):
        one.stdin.write(b"".join(line + b"\n" for line in part))
        one.stdin.flush()
        until_fed(feeding, 2)
    until_fed(feeding, 3)
    one.send_signal(number)  # it waits for the next line
    one.wait(PATIENCE)  # the pipe stays open
    returned, out, err = ended(one)
    assert (returned, err) == (code, "")
    assert "fed 3 records (lines 1 to 3)" in out
    assert feeding.values() == [*rows(2), row(7)]


def test_a_signal_ends_a_long_pause(feeding, process):
    feeding.provision().write(rows(3))
    one = process(feeding, "--rate", "0.001")
    until_fed(feeding, 1)
    one.send_signal(signal.SIGTERM)
    code, out, _ = ended(one)
    assert (code, "fed 1 record (lines 1 to 1)" in out) == (0, True)


def test_standard_input_to_its_end_and_again(feeding, process):
    feeding.provision()
    for count in (5, 8):
        one = process(feeding, "-")
        out, err = one.communicate(b"".join(line + b"\n" for line in rows(count)), PATIENCE)
        assert (one.returncode, err) == (0, b"")
    assert b"fed 3 records (lines 6 to 8)" in out
    assert feeding.values() == rows(8)


def test_a_refusal_is_a_line_on_standard_error(feeding, process):
    feeding.write(rows(1))
    code, out, err = ended(process(feeding))
    assert (code, out) == (1, "")
    servers, topics = feeding.broker.servers, feeding.topics
    asked = (topics.records, topics.dead_letters)
    assert err == "".join(f"{servers}: no topic {topic}: run mirrormesh provision\n" for topic in asked)


def test_a_feeder_tells_its_figures_and_one_that_fails_says_so_before_it_ends(feeding, process):
    (port,) = free_ports(1)
    options = ("--private-metrics", port, "--log", "json")
    one = process(feeding.provision(), "-", *options)
    one.stdin.write(b"".join(line + b"\n" for line in [*rows(3), b"{"]))
    one.stdin.flush()
    until(lambda: figures(port).get(("mirrormesh_feed_line",)) == 4)
    assert probed(port, "/readyz") == (200, "ready")
    assert figures(port)["mirrormesh_fed_records_total", "malformed"] == 1
    one.stdin.close()
    one.stdin = None  # or it is closed again
    until(lambda: figures(port).get(("mirrormesh_feed_over",)) == 1)
    figures(port)
    code, out, err = ended(one)
    lines = [json.loads(line) for line in err.splitlines()]
    assert {line["source"] for line in lines} == {"feed"}
    assert ": fed 4 records (lines 1 to 4), 1 bad" in lines[0]["message"]
    assert (code, out) == (0, "")
    feeding.write(rows(3))  # not the first of these
    two = process(feeding, *options)
    until(lambda: figures(port).get(("mirrormesh_feed_failed",)) == 1)
    assert probed(port, "/readyz") == (503, "the feed has failed: FeedFailed")
    until(lambda: figures(port) == {})  # it was read
    code, out, err = ended(two)
    assert (code, out) == (1, "")
    (line,) = [json.loads(line) for line in err.splitlines()]
    assert (line["level"], "the 4 lines that it holds are not the first of these" in line["message"]) == (
        "error",
        True,
    )


def figures(port):
    """What a feeder shows; nothing while it is not there."""
    try:
        return samples(text_string_to_metric_families(scraped("127.0.0.1", port)))
    except OSError:
        return {}


def test_a_killed_broker_is_waited_for_and_no_line_is_lost_or_doubled(new_broker, tmp_path, process):
    broker = new_broker()
    feeding = Feeding(tmp_path, broker.address).provision()
    one = process(feeding, "-")
    lines = without_end()
    with poured(one, itertools.islice(lines, 2000)):
        until_fed(feeding, 1001)
    os.kill(broker.pid, signal.SIGKILL)
    with poured(one, itertools.islice(lines, MANY - 2000)):
        told(one, broker)
        start(broker.folder, broker.port)
    returned, out, err = ended(one)
    assert returned == 0
    assert f"fed {MANY:,} records" in out
    assert "waiting" not in err  # once a minute
    assert feeding.values() == rows(MANY)


def test_a_signal_ends_the_wait_for_a_broker_that_went_away(new_broker, tmp_path, process):
    broker = new_broker()
    feeding = Feeding(tmp_path, broker.address).provision()
    one = process(feeding, "-")
    lines = without_end()
    with poured(one, itertools.islice(lines, 2000)):
        until_fed(feeding, 1001)
    os.kill(broker.pid, signal.SIGKILL)
    with poured(one, lines):
        told(one, broker)
        one.send_signal(signal.SIGTERM)
        one.wait(PATIENCE)
    assert ended(one)[0] == 0  # though the broker stays away
    start(broker.folder, broker.port)
    feeding.write(rows(MANY))
    feeding()
    assert feeding.values() == rows(MANY)


def told(process, broker):
    """Wait until it says that it waits for the broker."""
    words = f"waiting for the broker: {broker.address}: the broker does not answer\n".encode()
    patience = threading.Timer(PATIENCE, process.kill)
    patience.start()
    try:
        while (line := process.stderr.readline()) != words:
            assert line.startswith(b"line ")
    finally:
        patience.cancel()


def test_a_broker_that_is_not_there_yet_is_waited_for(new_broker, tmp_path, process):
    broker = new_broker()
    feeding = Feeding(tmp_path, broker.address).provision()
    feeding.write(rows(10))
    os.kill(broker.pid, signal.SIGKILL)
    one, other = process(feeding), process(feeding)
    told(one, broker)
    told(other, broker)
    other.send_signal(signal.SIGTERM)
    assert ended(other)[:2] == (0, "")  # before the broker is there
    start(broker.folder, broker.port)
    assert ended(one)[0] == 0
    assert feeding.values() == rows(10)
