"""`mirrormesh watch` of a broker that is not there, in terminals of any size and without one."""

import pytest

from tests.support.brokers.development import free_port
from tests.support.meshes.files import changed, written
from tests.support.processes.command import Process
from tests.support.processes.mesh import wait_until
from tests.support.processes.terminal import Terminal


@pytest.fixture
def servers():
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def path(tmp_path, servers):
    tree = changed(nodes=[f"n-{k}" for k in range(9)])
    tree["brokers"] = {side: {"servers": servers} for side in ("mesh", "data")} | {"trust_broker": True}
    tree["nodes"] = {}
    return written(tmp_path, tree)


def test_a_terminal_of_any_size_says_that_nobody_answers(tmp_path, path, servers):
    with Terminal(tmp_path, "watch", path) as terminal:
        for columns, lines, rows in ((80, 24, 9), (80, 10, 4), (200, 60, 9), (60, 8, 2)):
            terminal.resize(columns, lines)
            wait_until(lambda: terminal.lines[2].startswith(f"no answer from the broker {servers}"))
            wait_until(lambda rows=rows: sum("n-" in line[:8] for line in terminal.lines) == rows)
        wait_until(lambda: terminal.lines[7].startswith("7 more, for a higher terminal; never seen: n-2, "))
        terminal.press("h")
        wait_until(lambda: any(line.startswith("epsilon ") for line in terminal.lines))
        terminal.press("q")
        assert terminal.ends() == 0


def test_without_a_terminal_it_is_a_line(tmp_path, path, servers):
    process = Process(tmp_path, "lines", "watch", path)
    try:
        wait_until(lambda: "\n" in process.log)
        assert process.log.startswith(f"no answer from the broker {servers}: waiting for it; round 0 of ")
    finally:
        process.kill()


def test_once_does_not_wait_for_it(tmp_path, path, servers):
    process = Process(tmp_path, "once", "watch", path, "--once")
    assert process.ends() == 1
    assert process.log == f"{servers}: the broker does not answer\n"
