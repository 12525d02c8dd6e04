"""Commands that ask the mesh broker once, where none is."""

import pytest


@pytest.mark.parametrize(
    "command",
    [
        ("budget", "mesh.yaml"),
        ("watch", "mesh.yaml", "--once"),
        ("model", "mesh.yaml", "--output", "learnt"),
        ("audit", "releases", "mesh.yaml"),
        ("provision", "mesh.yaml"),
    ],
)
def test_a_broker_that_is_not_there_is_one_line(call, monkeypatch, mesh, command):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.2)
    both = "brokers: {mesh: {servers: '127.0.0.1:1'}, data: {servers: '127.0.0.1:1'}, trust_broker: true}\n"
    mesh.write_text(mesh.read_text() + both)
    assert call(*command) == (1, "", "127.0.0.1:1: the broker does not answer\n")
