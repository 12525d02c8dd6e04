"""The broker that all tests on a real Kafka share, what tests ask for, and loud lines on who was left out."""

import os
import signal

import pytest
from hypothesis import settings

from streams.tools.broker.broker import status, stop
from tests.support.brokers.development import started
from tests.support.brokers.registry import apicurio
from tests.support.processes.asking import Asking
from tests.support.processes.programs import left_out

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


def pytest_addoption(parser):
    parser.addoption(
        "--asked-for",
        choices=("any", "process", "PATH", "HOME", "TERM"),
        help="only tests that asked for it when they ran last, and those that have not run yet",
    )


def pytest_configure(config):
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # a broker starts in half the time
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background: processes would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Asking(config, config.getoption("--asked-for")))


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A plain broker, one a test process: use topics of your own, and let it live."""
    folder = tmp_path_factory.mktemp("broker") / "shared"
    try:
        yield started(folder)
    finally:
        stop(folder)


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory):
    """A broker with users and ACLs, one a test process: use names of your own, and let it live."""
    folder = tmp_path_factory.mktemp("broker") / "secure"
    try:
        yield started(folder, secure=True)
    finally:
        stop(folder)


@pytest.fixture(scope="session")
def mortal(tmp_path_factory):
    """The folder of a plain broker to be killed, one a test process: what is dead is started again."""
    folder = tmp_path_factory.mktemp("broker") / "mortal"
    yield folder
    stop(folder)


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory):
    """A real schema registry, one a test process, and its process: use subjects of your own."""
    with apicurio(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def new_broker(tmp_path, mortal):
    """Start a broker to be killed or misused; with `name`, `port` or `secure` it is the test's own.

    Without, topics of the tests before are there: use topics of your own.
    """
    folders = []

    def start_one(name=None, port=None, *, secure=False):
        if (name, port, secure) == (None, None, False):
            return started(mortal, getattr(status(mortal), "port", None))
        folders.append(tmp_path / (name or "broker"))
        return started(folders[-1], port, secure=secure)

    try:
        yield start_one
    finally:
        for folder in folders:
            stop(folder)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # -ra lists every skipped test within; these lines come last
def pytest_terminal_summary(terminalreporter):
    yield
    for line in left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_sep("=", line, red=True, bold=True)
