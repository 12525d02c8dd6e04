"""The broker that all tests on a real Kafka share, and a loud line where they were left out."""

import signal

import pytest
from hypothesis import settings

from streams.broker.broker import stop
from tests.support.brokers import LEFT_OUT, started

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


def pytest_configure():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background: processes would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A plain broker, one a test process: use topics of your own, and let it live."""
    folder = tmp_path_factory.mktemp("broker") / "shared"
    try:
        yield started(folder)
    finally:
        stop(folder)


@pytest.fixture
def new_broker(tmp_path):
    """Start a broker of the test's own, to be killed or misused: `new_broker(secure=True)`."""
    folders = []

    def start_one(name="broker", port=None, *, secure=False):
        folders.append(tmp_path / name)
        return started(folders[-1], port, secure=secure)

    try:
        yield start_one
    finally:
        for folder in folders:
            stop(folder)


def pytest_terminal_summary(terminalreporter):
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    left_out = [reason for reason in reasons if LEFT_OUT in reason]
    if left_out:
        why = left_out[0].partition(LEFT_OUT)[2].rstrip("')")
        tests = "1 test" if len(left_out) == 1 else f"{len(left_out)} tests"
        line = f"LEFT OUT: {tests} on a real Kafka: {why}"
        terminalreporter.write_sep("=", line, red=True, bold=True)
