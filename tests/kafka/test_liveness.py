"""Liveness means work: its owner hears of a part that hangs or dies, and a watchdog restarts the process."""

import os
import signal
import time
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.brokers.development import free_ports
from tests.support.brokers.topics import until
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.metrics import samples, scraped
from tests.support.processes.faulty import FAULTS, Faulty, plant
from tests.support.processes.forked import Forked
from tests.support.processes.mesh import LiveMesh
from tests.support.processes.watchdog import ServiceSocket, Watchdog

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HERE = "127.0.0.1"
LIVENESS = 3
"""Seconds: the least for a silence of three."""
WATCHDOG = 4
NEVER = 600
"""Seconds of a watchdog that does not act, however busy the machine is."""


def probed(port):
    """The status and text of `/livez`; None where nothing answers."""
    try:
        with urlopen(f"http://{HERE}:{port}/livez", timeout=10) as answer:
            return answer.status, answer.read().decode().strip()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()
    except OSError:
        return None


def round_of(port):
    """The node's last round; 0 where nothing answers."""
    try:
        found = samples(text_string_to_metric_families(scraped(HERE, port)))
    except OSError:
        return 0
    return found.get(("mirrormesh_round",), 0)


def is_told(answer, reason):
    """Whether `/livez` says that the process is not alive, and why."""
    status, said = answer or (0, "")
    return status == 503 and said.startswith(reason)


@contextmanager
def watched(folder, broker, launched, seconds):
    """A mesh of one node under a watchdog; its scheduler has a manager too. Yields mesh, watchdog, ports."""
    shared, private = free_ports(2)
    own = {"a": {"liveness": LIVENESS, "private_endpoint": f"{HERE}:{private}"}}
    path = small_mesh_file(
        folder, broker.address, own=own, nodes=["a"], topology={"graph": "complete"}, silence=3, rounds=5000
    )
    with LiveMesh(path) as mesh:
        (name,) = mesh.file.mesh.nodes
        options = (path, name, "--state", folder / "state", "--metrics", shared)
        with Watchdog(lambda: launched(folder, "node", "node", *options), seconds) as watchdog:
            try:
                yield mesh, watchdog, (shared, private)
            finally:
                watchdog.process.kill()


def test_each_part_that_stands_still_is_told_to_the_owner_and_restarted(tmp_path, broker):
    with watched(tmp_path, broker, Faulty, WATCHDOG) as (mesh, watchdog, (shared, private)):
        mesh.scheduler()
        (name,) = mesh.file.mesh.nodes
        mesh.start("feed", "feed", mesh.path, name, "--rate", 20)
        for number, reason in enumerate(FAULTS, 1):
            until(watchdog.look)
            before = round_of(shared)
            until(lambda before=before: watchdog.look() and round_of(shared) > before)
            until(lambda: probed(private) == (200, "alive"))
            plant(tmp_path, reason)
            until(lambda reason=reason: is_told(probed(private), reason))
            until(lambda: probed(shared) == (200, "alive"))
            until(lambda number=number: watchdog.look() and len(watchdog.ends) >= number)
        until(watchdog.look)
        watchdog.process.terminate()
        assert watchdog.process.ends() == 0
        assert "STOPPING=1" in watchdog.heard()
        assert set(watchdog.ends) == {-signal.SIGABRT}
        assert watchdog.process.log.count("Fatal Python error: Aborted") >= len(FAULTS)


def test_neither_missing_data_nor_a_broker_that_is_away_ends_a_process(tmp_path, new_broker):
    broker = new_broker()
    with (
        watched(tmp_path, broker, Forked, NEVER) as (mesh, watchdog, (_, private)),
        ServiceSocket() as manager,
    ):
        with manager.given():
            mesh.scheduler()
        until(lambda: "READY=1" in manager.heard())
        until(watchdog.look)
        stay_alive(watchdog, manager, private)  # no records
        os.kill(broker.pid, signal.SIGKILL)
        stay_alive(watchdog, manager, private)
        assert watchdog.ends == []


def stay_alive(watchdog, manager, private):
    """Wait until both have worked on and said so for longer than it takes a probe to act.

    Who stands for a moment, as all do on a busy machine, must do so anew.
    """
    since, notices = time.monotonic(), []

    def lived():
        nonlocal since, notices
        notices += manager.heard()
        if not (watchdog.look() and probed(private) == (200, "alive")):
            since, notices = time.monotonic(), []
        lasted = time.monotonic() - since
        return lasted > LIVENESS + 1 and notices.count("WATCHDOG=1") > 1

    until(lived)
    assert watchdog.process.running
