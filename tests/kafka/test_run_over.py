"""The end of a run, as Prometheus and a manager of processes see it: over, ready, idle, and no failure."""

from urllib.request import urlopen

import pytest

from tests.support.brokers.development import free_ports
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.metrics import scraped
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HERE = "127.0.0.1"
ROUNDS = 10


def figures(port):
    """What is served there: {name without labels: the largest value}; nothing where nobody answers."""
    try:
        lines = scraped(HERE, port).splitlines()
    except OSError:
        return {}
    values = [line.rsplit(" ", 1) for line in lines if line.startswith("mirrormesh_")]
    return {name.partition("{")[0].removeprefix("mirrormesh_"): float(value) for name, value in values}


def test_processes_that_stay_say_that_the_run_is_over_and_end_in_order(tmp_path, broker):
    shared, private, scheduler, left = free_ports(4)
    path = small_mesh_file(
        tmp_path, broker.address, rounds=ROUNDS, own={"a": {"private_endpoint": f"{HERE}:{private}"}}
    )
    with LiveMesh(path) as mesh:
        first, second, third = mesh.file.mesh.nodes
        mesh.feed_all()
        staying = [
            mesh.start("scheduler", "scheduler", path, "--stay", "--metrics", scheduler),
            mesh.node(first, "--stay", "--metrics", shared),
        ]
        wait_until(lambda: [figures(port).get("run_over") for port in (shared, scheduler)] == [0, 0])
        assert figures(private)["private_run_over"] == 0
        mesh.node(second)
        mesh.node(third, "--metrics", left)
        wait_until(lambda: [figures(port).get("run_over") for port in (shared, scheduler)] == [1, 1])
        assert figures(private)["private_run_over"] == 1
        assert figures(shared)["round"] == figures(scheduler)["plan_round"] - 1 >= ROUNDS
        for port in (shared, private, scheduler):
            for probe, text in (("livez", "alive"), ("readyz", "ready\nthe run is over")):
                with urlopen(f"http://{HERE}:{port}/{probe}", timeout=10) as answer:
                    assert (answer.status, answer.read().decode().strip()) == (200, text)
        mesh.finish(second, third)  # nobody reads them
        assert all(process.running for process in staying)
        for process in staying:
            process.terminate()
        mesh.finish()
        assert "the run is over" in mesh.processes[first].log
