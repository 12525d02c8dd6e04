"""Two ports, two registries: as Prometheus reads them, and as its promtool judges them."""

import socket
import threading
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from streams.metrics.endpoint import LONGEST, MOST, Endpoint, LastReads, NotServed
from streams.metrics.scheduler_metrics import SchedulerMetrics
from tests.support.brokers.development import free_port, free_ports
from tests.support.nodes.machines import learner, machine, plans, run_rounds, started
from tests.support.nodes.metrics import metrics, probed, promtool_says, scraped, told

HERE = "127.0.0.1"


@pytest.fixture
def node():
    parts = learner(budget="5")
    run = machine(parts)
    return told(metrics(parts), [*started(run, *plans(1, 4)), *run_rounds(run, 1, 3)])


def served(registry):
    """An endpoint, with its port."""
    port = free_port()
    endpoint = Endpoint(HERE, port)
    endpoint.show(registry, lambda: None)
    return endpoint, port


def test_each_registry_is_served_on_its_own_port(node):
    shared, shared_port = served(node.shared)
    with shared:
        private, private_port = served(node.private)
        with private:
            everyone, owner = scraped(HERE, shared_port), scraped(HERE, private_port)
    assert 'mirrormesh_round{mesh="tracking",node="a"} 3.0' in everyone
    assert 'mirrormesh_records_total{mesh="tracking",node="a"} 3.0' in owner
    for name in ("regret", "records", "clipped", "data_lag", "_process_"):
        assert name not in everyone
        assert name in owner


def test_promtool_finds_nothing_wrong(node):
    for registry in (node.shared, node.private, SchedulerMetrics("tracking", "abc", connected=bool).shared):
        endpoint, port = served(registry)
        with endpoint:
            assert promtool_says(scraped(HERE, port)) == ""


def test_promtool_would_find_something_wrong(node):
    endpoint, port = served(node.shared)
    with endpoint:
        text = scraped(HERE, port)
    assert "no help text" in promtool_says(
        "\n".join(line for line in text.splitlines() if not line.startswith("# HELP mirrormesh_round "))
        + "\n"
    )


def test_a_closed_endpoint_lets_go_of_its_port():
    for _ in range(2):
        port = free_port()
        with Endpoint(HERE, port):
            scraped(HERE, port)
        with pytest.raises(URLError):
            scraped(HERE, port)
        with Endpoint(HERE, port):
            scraped(HERE, port)


def test_a_taken_port_is_a_clear_error():
    port = free_port()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HERE, port))
        other.listen()
        with pytest.raises(NotServed, match=f"cannot be served on {HERE}:{port}: Address already in use"):
            Endpoint(HERE, port)


@pytest.mark.parametrize(
    ("address", "port", "why"),
    [
        ("192.0.2.1", 20_999, "Cannot assign requested address"),
        ("no.such.host.invalid", 20_999, "not known"),
        (HERE, 70_000, "a port is from 0 to 65535"),
    ],
)
def test_an_address_that_is_not_ours_is_a_clear_error(address, port, why):
    with pytest.raises(NotServed, match=why):
        Endpoint(address, port)


def test_it_is_alive_before_it_is_ready_and_says_what_is_missing(node):
    missing = ["the mesh broker does not answer"]
    port = free_port()
    with Endpoint(HERE, port) as endpoint:
        assert probed(port, "/livez") == (200, "alive")
        assert probed(port, "/readyz") == (503, "starting: the process waits for what it needs")
        assert probed(port, "/metrics") == (200, "")
        endpoint.show(node.shared, lambda: missing[0])
        assert probed(port, "/readyz") == (503, "the mesh broker does not answer")
        missing[0] = None
        assert probed(port, "/readyz") == (200, "ready")
        assert probed(port, "/etc/passwd") == (404, "must be /metrics, /livez or /readyz")


def test_a_node_is_ready_once_it_decides_and_while_the_broker_is_there():
    there = [True]
    figures, run = metrics(connected=lambda: there[0]), machine(learner())
    assert figures.missing() == "no plan that names this node is acted on yet"
    told(figures, [*started(run, *plans(1, 4)), *run_rounds(run, 1, 3)])
    assert figures.missing() is None
    there[0] = False
    assert figures.missing() == "the mesh broker does not answer"


def test_one_whose_process_stands_still_is_not_alive_and_says_why(node):
    stalled = ["the loop has not turned for 31 s"]
    port, other = free_ports(2)
    with Endpoint(HERE, port) as owner, Endpoint(HERE, other) as shared:
        owner.show(node.private, lambda: None, lambda: stalled[0])
        shared.show(node.shared, lambda: None)
        assert probed(port, "/livez") == (503, "the loop has not turned for 31 s")
        assert probed(other, "/livez") == (200, "alive")
        stalled[0] = None
        assert probed(port, "/livez") == (200, "alive")


def test_held_connections_take_a_bounded_number_of_threads_and_keep_nobody_out(node):
    """One that says nothing, and one that says half of a request, again and again."""
    before = threading.active_count()
    endpoint, port = served(node.shared)
    held = []
    with endpoint:
        for k in range(3 * MOST):
            held.append(socket.create_connection((HERE, port), timeout=5))
            held[-1].sendall(b"GET /metrics HTTP/1.1\r\n" if k % 2 else b"")
            if k % MOST == MOST - 1:
                assert "mirrormesh_round" in scraped(HERE, port)
                assert urlopen(f"http://{HERE}:{port}/livez", timeout=5).status == 200
            assert threading.active_count() <= before + 1 + MOST
        for connection in held[:MOST]:
            assert connection.recv(1) == b""  # the oldest were ended, and not by a timeout
    for connection in held:
        connection.close()


def over_by(port, registries, *, readings=2):
    """What a reader sees of `run_over`: at each wait of the process at its end, from then on."""
    seen = []

    def wait(_):
        if len(seen) < readings:
            seen.append(samples_of(scraped(HERE, port)))
        return len(seen) == readings

    return seen, wait


def samples_of(text):
    """The values of `run_over`."""
    return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("mirrormesh_run_over{")]


def ended(endpoint, registry, wait, *, error=None, stays=False):
    """End a process whose endpoint that is, by an error."""
    try:
        with LastReads(lambda error: isinstance(error, KeyError), wait, stays=stays) as last:
            last.watch(endpoint, [registry])
            if error is not None:
                raise error
    except (KeyError, OSError):
        pass


def test_a_process_at_the_end_of_its_run_is_read_twice_before_it_ends(node):
    endpoint, port = served(node.shared)
    with endpoint:
        assert samples_of(scraped(HERE, port)) == samples_of(scraped(HERE, port)) == [0]
        seen, wait = over_by(port, node.shared, readings=10)
        ended(endpoint, node.shared, wait, error=KeyError("the run is over"))
        assert seen == [[1], [1]]
        assert probed(port, "/livez") == (200, "alive")
        assert probed(port, "/readyz") == (200, "ready\nthe run is over")


def test_a_process_that_nobody_reads_or_that_fails_ends_at_once(node):
    def never(_):
        raise AssertionError("it waits")

    endpoint, port = served(node.shared)
    with endpoint:
        ended(endpoint, node.shared, never, error=KeyError("the run is over"))
        scraped(HERE, port)  # once by hand
        ended(endpoint, node.shared, never, error=KeyError("the run is over"))
        scraped(HERE, port)
        node.shared.run_over = False
        ended(endpoint, node.shared, never, error=OSError("it has failed"))
        assert samples_of(scraped(HERE, port)) == [0]


def test_a_process_waits_for_its_readers_no_longer_than_three_intervals(node, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("streams.metrics.endpoint.time.monotonic", lambda: clock[0])
    endpoint, port = served(node.shared)

    def wait(seconds):
        clock[0] += seconds
        return False

    with endpoint:
        for interval, most in ((5.0, 16.0), (600.0, LONGEST)):
            for _ in range(2):
                clock[0] += interval
                scraped(HERE, port)
            began = clock[0]
            ended(endpoint, node.shared, wait, error=KeyError("the run is over"))
            assert clock[0] - began == pytest.approx(most, abs=0.2)


def test_a_process_that_stays_waits_until_it_is_asked_to_stop(node):
    endpoint, port = served(node.shared)
    with endpoint:
        seen, wait = over_by(port, node.shared, readings=5)
        ended(endpoint, node.shared, wait, error=KeyError("the run is over"), stays=True)
        assert seen == [[1]] * 5
