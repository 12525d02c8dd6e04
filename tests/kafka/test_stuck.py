"""Members that never step, or far too slowly: the others go on without them."""

import os
import signal
import time
from dataclasses import replace

import pytest

from streams.bus.logs import Logs
from streams.bus.mesh_log import MeshLog, messages
from streams.codec import encode_heartbeat
from tests.kafka.test_forgetful_broker import stepped
from tests.support.brokers.topics import bus_of, connection
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SERVICE = {
    "slots": {"by": "count", "size": 1, "timeout": 0.5},
    "round_timeout": 0.5,
    "silence": 2,
    "horizon": 8,
    "rounds": "none",
}


def test_a_member_that_beats_and_never_steps_does_not_stop_the_others(tmp_path, new_broker):
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, **SERVICE)) as mesh:
        mesh.feed_all("--records", "2000")
        mesh.scheduler()
        liar, *others = mesh.nodes()
        wait_until(lambda: min(stepped(mesh)) > SERVICE["horizon"])
        mesh.processes[liar].kill()
        at, topic = connection(broker.address), mesh.file.resolved.topics.progress(liar)
        last = messages(MeshLog.of(mesh.file, Logs(at)).heartbeats(liar, 5))[-1]
        bus, digest = bus_of(at, topic), mesh.file.digest()
        stands = max(stepped(mesh)) + SERVICE["horizon"] + 1

        def beyond(round_):
            bus.send(topic, encode_heartbeat(replace(last, hello=False), digest))
            return min(stepped(mesh)[1:]) > round_

        wait_until(lambda: beyond(stands))
        assert f"{liar} has held the others for" in mesh.processes["scheduler"].log
        wait_until(lambda: beyond(stands + 5 * SERVICE["horizon"]))  # it was a listener, and full, meanwhile
        bus.close()
        assert mesh.start("end", "end", mesh.path, "--yes").ends() == 0
        mesh.finish("scheduler", *others)


def test_a_member_that_stands_for_most_of_the_time_is_left_out_although_releases_are_awaited(
    tmp_path, new_broker
):
    """It holds its neighbours at its releases first: `round_timeout` is longer than it ever stands."""
    broker = new_broker()
    waits = {"round_timeout": 60, "silence": 60, "lag_limit": 0.3, "horizon": 8, "rounds": "none"}
    slots = {"by": "count", "size": 1, "timeout": 60}
    path = small_mesh_file(tmp_path, broker.address, nodes=list("abcd"), slots=slots, **waits)
    with LiveMesh(path, Process) as mesh:
        mesh.feed_all("--records", "20000")
        scheduler = mesh.scheduler()
        slow, *others = mesh.nodes()
        wait_until(lambda: min(stepped(mesh)) > waits["horizon"])
        pid = mesh.processes[slow]._process.pid

        def left_out():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.9)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
            return f"{slow} has held the others for" in scheduler.log

        wait_until(left_out)
        assert mesh.start("end", "end", mesh.path, "--yes").ends() == 0
        mesh.finish("scheduler", slow, *others)
