"""A member that sends heartbeats and never steps: the others go on without it."""

from dataclasses import replace

import pytest

from streams.bus.logs import Logs
from streams.bus.mesh_log import MeshLog, messages
from streams.codec import encode_heartbeat
from tests.kafka.test_forgetful_broker import stepped
from tests.support.kafka import bus_of, connection
from tests.support.processes import LiveMesh, wait_until
from tests.support.small_mesh import small_mesh_file

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
