"""What needs a process of its own: signals, pipes, a mistake's traceback that is not there."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from streams.state.folder import JournalError
from streams.state.journal_file import JournalReader

COMMAND = [sys.executable, "-c", "from streams.cli import main; main()"]
LONG = 120.0


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Start a command in the folder; it is ended with the test."""
    processes = []

    def start(*arguments):
        usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup: ignored, and inherited
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        signal.signal(signal.SIGHUP, usual)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(condition):
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "this never came"
        time.sleep(0.01)


def endless(mesh):
    mesh.write_text(mesh.read_text().replace("rounds: 40", "rounds: none"))


def stepped(state, round):
    """Whether node c has stepped that round."""

    def seen():
        try:
            with JournalReader(state / "c.journal") as journal:
                return any(record.stepped >= round for record in journal.records(1))
        except JournalError:  # not there yet
            return False

    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_writes_what_there_is(started, mesh, tmp_path, number):
    endless(mesh)
    process = started("run", mesh, "--output", "out", "--state", "state")
    wait_for(stepped(tmp_path / "state", 3))
    process.send_signal(number)
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, err) == (130, "")
    assert "\nInterrupted" in out
    rows = (tmp_path / "out" / "rounds.csv").read_text().splitlines()
    assert len(rows) % 3 == 1
    assert len(rows) > 3 * 3
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["interrupted"] is True


def test_the_second_interrupt_stops_at_once_and_writes_what_there_is(started, mesh, tmp_path):
    endless(mesh)
    os.mkfifo(tmp_path / "pipe")
    schema = "{features: {x: number, y: number}, label: {column: distance}}"
    source = f"{{kind: json-lines, path: pipe, schema: {schema}}}"
    mesh.write_text(mesh.read_text().replace("a: {source: {kind: localisation}}", f"a: {{source: {source}}}"))
    process = started("run", mesh, "--output", "out", "--state", "state")
    with (tmp_path / "pipe").open("w") as pipe:  # opened once the other end is
        pipe.write('{"x": 1, "y": 0, "distance": 1}\n' * 5)
        pipe.flush()  # and then nothing comes, so the planned rounds never end
        wait_for(stepped(tmp_path / "state", 3))
        wait_for(lambda: interrupted(process))
    assert process.returncode == 130
    rows = (tmp_path / "out" / "rounds.csv").read_text().splitlines()
    assert len(rows) >= 1 + 3 * 3  # whole rounds alone
    assert len(rows) % 3 == 1


def interrupted(process):
    """Send one more interrupt, and give the process a second to end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.mark.parametrize("command", ["plan", "run", "check"])
def test_a_reader_that_goes_away_is_no_error(mesh, tmp_path, command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, command, str(mesh)],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_mistakes_and_answers_in_a_process(started):
    process = started("run", "nowhere.yaml")
    assert process.communicate(timeout=LONG) == (
        "",
        "nowhere.yaml: cannot be read: No such file or directory\n",
    )
    assert process.returncode == 2


def test_ctrl_c_while_it_is_being_loaded_ends_it_without_a_word(tmp_path):
    (tmp_path / "typer.py").write_text("import time; print('loading', flush=True); time.sleep(60)")
    process = subprocess.Popen(
        COMMAND,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LONG)
    assert (process.returncode, said) == (-signal.SIGINT, "")
