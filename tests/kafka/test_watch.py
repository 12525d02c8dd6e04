"""`mirrormesh watch` in a real terminal, on a mesh that runs on a real broker."""

import os
import re
import signal
from contextlib import closing

import pytest

from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.status.account import ChargeCount, public_charge_counts
from tests.support.brokers.development import started
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.in_process import Commands
from tests.support.processes.mesh import LiveMesh, wait_until
from tests.support.processes.terminal import Terminal

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ENTERED, LEFT, SHOWN, HIDDEN = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?25l"


def steady(mesh):
    """Start a mesh of three whose rounds rise slowly, for as long as a test may take."""
    for name in mesh.file.mesh.nodes:
        mesh.start(f"feed-{name}", "feed", mesh.path, name, "--rate", "20")
    mesh.scheduler()
    return list(mesh.nodes())


def rounds(terminal):
    """The round in the picture's head; 0 where there is none."""
    found = re.match(r"round ([\d,]+) of", terminal.lines[1])
    return int(found[1].replace(",", "")) if found else 0


def row(terminal, name):
    """The node's line."""
    (found,) = [line for line in terminal.lines if name in line] or [""]
    return found


def is_left_as_before(terminal):
    drawn = terminal.drawn
    on_screen = drawn.rfind(LEFT) > drawn.rfind(ENTERED) >= 0 and drawn.rfind(SHOWN) > drawn.rfind(HIDDEN)
    return on_screen and terminal.attributes == terminal.before


def test_rounds_rise_a_killed_node_is_silent_and_q_leaves_the_terminal_as_it_was(tmp_path, broker, capsys):
    path = small_mesh_file(tmp_path, broker.address, rounds=5000, silence=8, round_timeout=1)
    with LiveMesh(path) as mesh, Terminal(tmp_path, "watch", path) as terminal:
        names = steady(mesh)
        wait_until(lambda: rounds(terminal) >= 10)
        wait_until(lambda: all(f"{k}  {name}" in row(terminal, name) for k, name in enumerate(names, 1)))
        assert terminal.attributes != terminal.before
        assert terminal.lines[0].startswith(f"{mesh.file.mesh.name}, run run-1")
        assert terminal.lines[0].endswith("q quit")
        assert [bool(line) for line in terminal.lines] == [True] * 7 + [False] * 17  # nothing is wrapped
        assert [re.search(r"[-●○]{3}", row(terminal, name))[0] for name in names] == ["-●●", "●-●", "●●-"]
        assert "simulated" in row(terminal, names[0])
        mesh.processes[names[2]].kill()
        wait_until(lambda: "silent" in row(terminal, names[2]))
        wait_until(lambda: "-●○" in row(terminal, names[0]))
        before = rounds(terminal)
        wait_until(lambda: rounds(terminal) > before)
        wait_until(lambda: "silent" not in row(terminal, names[0]))  # a busy machine may hold up any
        is_told_what_became_of(Commands(capsys), mesh, names)
        terminal.press("?")
        wait_until(lambda: any(line.startswith("relaying") for line in terminal.lines))
        terminal.press("h")
        wait_until(lambda: rounds(terminal) > before)
        terminal.press("q")
        assert terminal.ends() == 0
        wait_until(lambda: is_left_as_before(terminal))


def is_told_what_became_of(call, mesh, names):
    """One round is told: that in which the others went on without the third, which was killed."""
    with closing(reached(mesh.file.mesh_broker)) as logs:
        last = max(MeshLog.of(mesh.file, logs).valid_plans())
    told = (call("watch", mesh.path, "--round", number) for number in range(last, 0, -1))
    lines = next(lines for one in told if f"without {names[2]}" in (lines := one.out))
    assert re.search(rf"{names[0]} went on without {names[2]}, whose release is not in the log", lines)
    assert f"{names[0]}, {names[1]} heard" in lines or f"{names[0]} heard {names[1]} last" in lines
    beyond = call("watch", mesh.path, "--round", 10**6)
    assert (beyond.code, beyond.err.count("\n")) == (2, 1)
    assert beyond.err.startswith("--round 1000000: must be a round of a plan; the log has the plans of")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path, broker, number, code):
    path = small_mesh_file(tmp_path, broker.address)
    with LiveMesh(path) as mesh, Terminal(tmp_path, "watch", path) as terminal:
        wait_until(lambda: "never seen" in row(terminal, next(iter(mesh.file.mesh.nodes))))
        if number == signal.SIGINT:
            terminal.press("\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.ends() == code
        wait_until(lambda: is_left_as_before(terminal))


def test_a_broker_that_is_away_is_said_and_it_goes_on_when_that_is_back(tmp_path, new_broker):
    broker = new_broker()
    path = small_mesh_file(tmp_path, broker.address, rounds=5000)
    with LiveMesh(path) as mesh:
        steady(mesh)
        with Terminal(tmp_path, "watch", path) as terminal:
            wait_until(lambda: rounds(terminal) >= 5)
            os.kill(broker.pid, signal.SIGKILL)
            wait_until(
                lambda: any(f"no answer from the broker {broker.address}" in x for x in terminal.lines)
            )
            before = rounds(terminal)
            terminal.press("h")
            wait_until(lambda: any(line.startswith("relaying") for line in terminal.lines))
            terminal.press("h")
            again = started(broker.folder, broker.port)
            wait_until(lambda: rounds(terminal) > before + 5)
            assert not any("no answer" in line for line in terminal.lines)
            os.kill(again.pid, signal.SIGKILL)
            wait_until(lambda: any("no answer" in line for line in terminal.lines))
            terminal.press("q")
            assert terminal.ends() == 0
            wait_until(lambda: is_left_as_before(terminal))


def test_once_prints_a_table_and_lines_come_where_there_is_no_terminal(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=30)
    with LiveMesh(path) as mesh:
        mesh.run_through()
        once, lines = mesh.start("once", "watch", path, "--once"), mesh.start("lines", "watch", path)
        assert once.ends() == 0
        said = once.log.splitlines()
        assert f"{mesh.file.mesh.name}, run run-1: round 30 of 30; " in said[0]
        assert "the run is over" in said[0]
        assert "rounds/s" not in said[0]
        told = {words[1]: words[2] for line in said[3:] if (words := line.split())}
        names = list(mesh.file.mesh.nodes)
        assert told == dict.fromkeys(names, "31")  # a closing one
        whole = ChargeCount(31, 30, exactly=False, planned=31)
        assert public_charge_counts(mesh.file, names) == dict.fromkeys(names, whole)
        wait_until(lambda: "round 30 of 30" in lines.log)
        assert len(lines.log.splitlines()) == 1
        lines.terminate()
        assert lines.ends() == 0


def test_what_is_not_there_is_one_clear_line(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address)
    with LiveMesh(path) as mesh:
        text = path.read_text().replace("run: run-1", "run: run-2")
        path.write_text(text)
        for label, options in {"once": ["--once"], "lines": []}.items():
            asked = mesh.start(label, "watch", path, *options)
            assert asked.ends() == 1
            (line,) = asked.log.splitlines()
            topics = len(mesh.file.mesh.nodes) + 1
            said = f"{topics} of {topics} topics of run run-2 missing: run mirrormesh provision {path}"
            assert line == f"{broker.address}: {said}"
