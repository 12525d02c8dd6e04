"""What Faust says of a record that fails: with its own words the record's would get into the log."""

import subprocess
import sys

import pytest

from tests.support.brokers.development import Client

VALUE = "4.25,hidden"
FAILING = """
import asyncio, sys
import faust
from mode import CrashingSupervisor
from streams.live.log import start_logging

start_logging(json=False, level="info")
app = faust.App(
    sys.argv[1],
    broker="kafka://" + sys.argv[2],
    topic_allow_declare=False,
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    stream_wait_empty=False,
    agent_supervisor=CrashingSupervisor,
    web_enabled=False,
    datadir=sys.argv[3],
)

@app.agent(app.topic(sys.argv[1], value_type=bytes, value_serializer="raw"))
async def read(stream):
    async for value in stream.noack():
        float(value)

async def live():
    try:
        await app.start()
        await asyncio.wait_for(app.wait_until_stopped(), 60)
    finally:
        await app.stop()

asyncio.run(live())
"""


@pytest.mark.kafka
def test_a_record_that_fails_in_faust_is_not_in_the_log(broker, tmp_path):
    client = Client(broker)
    topic = client.new_topic()
    client.send(topic, VALUE.encode())
    command = [sys.executable, "-c", FAILING, topic, broker.address, str(tmp_path / "faust")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Crashed reason='ValueError' [ValueError at agent.py:" in done.stderr
    assert "hidden" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
