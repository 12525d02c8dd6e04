"""Starting a broker where Java, Maven or Kafka are not to be had, or only pretend."""

import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from streams.tools.broker.broker import is_held, start, status, stop
from streams.tools.broker.folder import Folder, write_secret
from streams.tools.broker.java import BrokerError, BrokerMisused, Missing, find_jars, find_java

VERSION = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
JAVA_17 = f'[ "$1" = -version ] && {VERSION}'
FETCH = """
for argument in "$@"; do case $argument in -DoutputDirectory=*) folder=${argument#*=};; esac; done
mkdir "$folder" && echo jar > "$folder/kafka.jar"
"""
PORT = 18_500


@pytest.fixture
def program(tmp_path, monkeypatch):
    """`program("java", script)`: the only programs of PATH are those, and what a script needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for needed in ("mkdir", "sleep"):
        (folder / needed).symlink_to(shutil.which(needed))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(name, script, folder=folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return str(folder / name)

    return make


def silent(_):
    pass


def test_java_of_path(program):
    path = program("java", JAVA_17)
    assert find_java() == path


def test_java_home_comes_first_where_it_holds_one(program, tmp_path, monkeypatch):
    path = program("java", JAVA_17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == path
    inside = program("java", JAVA_17, tmp_path / "jdk" / "bin")
    assert find_java() == inside


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "java is missing"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_292\"' >&2", "is Java 1"),
        ("echo 'no JVM here' >&2", "-version fails"),
        (f"{VERSION}; exit 1", "-version fails"),
    ],
)
def test_no_java_that_will_do(program, tmp_path, script, said):
    program("mvn", FETCH)
    if script is not None:
        program("java", script)
    with pytest.raises(Missing, match=f"{said}.*: install openjdk-17-jre-headless"):
        start(tmp_path / "broker", PORT)
    assert status(tmp_path / "broker") is None
    assert stop(tmp_path / "broker") is False


def test_no_maven(program, tmp_path):
    program("java", JAVA_17)
    with pytest.raises(Missing, match="mvn is missing: install maven"):
        start(tmp_path / "broker", PORT)


def test_maven_that_fails_and_then_does_not(program, tmp_path):
    (tmp_path / "cache").mkdir()
    program("mvn", 'echo "[INFO] hello"; echo "[ERROR] no such host"; echo "[ERROR] help 1"; exit 1')
    with pytest.raises(BrokerError) as failed:
        find_jars(silent)
    first, *rest = str(failed.value).splitlines()
    assert first.startswith(f"Maven could not fetch Kafka (all it said: {tmp_path / 'cache'}")
    assert rest == ["[ERROR] no such host", "[ERROR] help 1"]
    program("mvn", FETCH)
    assert [path.name for path in find_jars(silent).iterdir()] == ["kafka.jar"]


def test_the_jars_are_fetched_once(program):
    said = []
    program("mvn", f"sleep 0.2; {FETCH}")
    with ThreadPoolExecutor() as pool:
        folders = set(pool.map(lambda _: find_jars(said.append), range(4)))
    assert len(folders) == len(said) == 1
    program("mvn", "exit 1")
    assert {find_jars(said.append)} == folders
    assert len(said) == 1


def test_another_version_of_kafka(program, monkeypatch):
    program("mvn", FETCH)
    usual = find_jars(silent)
    monkeypatch.setenv("MIRRORMESH_KAFKA", "4.1.0")
    program("mvn", f'case "$*" in *-Dkafka.version=4.1.0*) {FETCH};; *) exit 1;; esac')
    assert find_jars(silent).name == f"{usual.name}-4.1.0"
    monkeypatch.setenv("MIRRORMESH_KAFKA", "../4")
    with pytest.raises(
        BrokerMisused, match=r"MIRRORMESH_KAFKA is '../4': must be a version of Kafka such as 4\.1\.0"
    ):
        find_jars(silent)


def test_a_fetch_that_was_cut_off_is_begun_anew(program):
    program("mvn", FETCH.replace("kafka.jar", "half.jar") + "exit 1")
    with pytest.raises(BrokerError):
        find_jars(silent)
    program("mvn", FETCH)
    assert [path.name for path in find_jars(silent).iterdir()] == ["kafka.jar"]


@pytest.fixture
def slow_java(program, tmp_path):
    """A Java that takes its time, and a Kafka that does nothing but end when it is asked to."""
    program("mvn", FETCH)
    kafka = "trap 'echo asked; exit' TERM; echo Kafka Server started; while :; do sleep 0.05; done"
    program("java", f"sleep 0.3; {JAVA_17}; case $* in *kafka.Kafka*) {kafka};; esac")
    yield
    stop(tmp_path / "broker")


@pytest.mark.usefixtures("slow_java")
def test_a_second_start_waits_for_the_first_and_is_not_misled_by_an_old_log(tmp_path):
    old = start(tmp_path / "broker", PORT)
    stop(tmp_path / "broker")
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: start(tmp_path / "broker"), range(2))
    assert first == second == status(tmp_path / "broker")
    assert first.pid not in (None, old.pid)


@pytest.mark.usefixtures("slow_java")
def test_it_is_asked_to_end_not_killed(tmp_path):
    broker = start(tmp_path / "broker", PORT)
    assert stop(tmp_path / "broker") is True
    assert broker.log.read_text().splitlines()[-1] == "asked"


def test_an_interrupted_start_leaves_nothing_behind(program, tmp_path):
    program("mvn", FETCH)
    program("java", f"{JAVA_17}; case $* in *kafka.Kafka*) exec sleep 60;; esac")  # never ready
    folder = tmp_path / "broker"
    imports = "from pathlib import Path; from streams.tools.broker.broker import start"
    code = f"{imports}; start(Path({str(folder)!r}), {PORT})"
    starting = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    end = time.monotonic() + 30
    while not (folder / "broker.pid").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert is_held(folder / "broker.lock")
    starting.send_signal(signal.SIGINT)
    _, said = starting.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said
    assert not is_held(folder / "broker.lock")


@pytest.mark.usefixtures("slow_java")
def test_one_that_is_interrupted_just_as_java_is_launched_leaves_nothing_behind(tmp_path, monkeypatch):
    run, launched = subprocess.run, []

    def interrupted(command, **options):
        done = run(command, **options)
        if "kafka.Kafka" in command:
            launched.append(command)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "broker", PORT)
    assert launched
    assert not is_held(tmp_path / "broker" / "broker.lock")


def test_a_broker_that_ends_at_once_says_its_last_words(program, tmp_path):
    program("mvn", FETCH)
    program(
        "java", f'{JAVA_17}; case "$*" in *StorageTool*) ;; *kafka.Kafka*) echo "an ERROR of sorts";; esac'
    )
    with pytest.raises(BrokerError, match=r"did not start; .*broker.log:\nan ERROR of sorts$"):
        start(tmp_path / "broker", PORT)
    assert status(tmp_path / "broker").running is False


def test_a_folder_that_cannot_be_formatted(program, tmp_path):
    program("mvn", FETCH)
    program("java", f'{JAVA_17}; case $* in *StorageTool*) echo "the disk is full"; exit 1;; esac')
    with pytest.raises(BrokerError, match=r"could not be formatted; .*broker.log:\nthe disk is full$"):
        start(tmp_path / "broker", PORT, secure=True)
    assert status(tmp_path / "broker") is None
    assert not (tmp_path / "broker" / "users.arguments").exists()


def test_a_secure_broker_takes_more_ports(program, tmp_path):
    program("mvn", FETCH)
    program("java", JAVA_17)
    with pytest.raises(BrokerMisused, match=r"^port 62536: a secure broker's must be at most 62,535"):
        start(tmp_path / "broker", 62_536, secure=True)
    assert status(tmp_path / "broker") is None


@pytest.mark.usefixtures("program")  # far from any Java
def test_a_folder_of_something_else(tmp_path):
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "thesis.txt").write_text("years")
    with pytest.raises(BrokerMisused, match="holds other files"):
        start(papers)
    with pytest.raises(BrokerMisused, match="is not a folder"):
        start(papers / "thesis.txt")
    with pytest.raises(BrokerMisused, match="is not a folder"):
        start(papers / "thesis.txt" / "below")
    assert [path.name for path in papers.iterdir()] == ["thesis.txt"]
    assert status(papers) is None
    assert status(papers / "thesis.txt") is None
    assert stop(papers) is False


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"secure": false}', '{"secure": false, "port": "x"}'])
def test_a_folder_whose_broker_cannot_be_told(tmp_path, text):
    (tmp_path / "broker.lock").touch()
    (tmp_path / "broker.json").write_text(text)
    with pytest.raises(BrokerMisused, match=r"broker\.json: is not as it was written"):
        status(tmp_path)
    with pytest.raises(BrokerMisused, match=r"broker\.json: is not as it was written"):
        start(tmp_path)


def test_a_log_that_is_being_put_away_holds_nothing_yet(tmp_path):
    assert Folder(tmp_path).said() == b""
    (tmp_path / "broker.log").write_bytes(b"ready")
    assert Folder(tmp_path).said() == b"ready"


def test_a_secret_is_its_owner_s_alone_also_in_a_file_that_is_there(tmp_path):
    path = tmp_path / "admin.key"
    path.write_text("of an earlier certificate, and longer")
    path.chmod(0o644)
    write_secret(path, "key\n")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("key\n", 0o600)
