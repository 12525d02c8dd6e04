"""What a test asks of the machine: a program, a terminal, a home. `make test-bare` runs the tests that ask.

Nobody writes down that a test asks: it is heard, and kept in pytest's cache until the test runs again. A test
of which nothing is known counts as one that asks.
"""

import os
import sys

import pytest

_VARIABLES = {"PATH", "HOME", "TERM"}
_EVENTS = {
    "subprocess.Popen",
    "os.posix_spawn",
    "os.spawn",
    "os.exec",
    "os.system",
    "os.forkpty",
    "pty.spawn",
}
_PROPERTY, _KEPT = "asked for", "mirrormesh/asked"
_heard: set[str] = set()


def _listen() -> None:
    """Hear of each process that this one starts, and of each look at those variables."""
    read = os._Environ.__getitem__

    def look(environ, name):
        if name in _VARIABLES:
            _heard.add(name)
        return read(environ, name)

    def hear(event, _):
        if event in _EVENTS:
            _heard.add("process")

    os._Environ.__getitem__ = look  # get, in, expanduser, which: all come to it
    sys.addaudithook(hear)


class Asking:
    """Keeps what each test asked for; where `wanted` is given, tests that did not ask for it are left."""

    def __init__(self, config: pytest.Config, wanted: str | None) -> None:
        self._wanted = wanted
        self._cache = getattr(config, "cache", None)
        self._reads = not hasattr(config, "workerinput")  # xdist: its workers' reports come to one process
        self._asked: dict[str, set[str]] = {}
        _listen()

    def pytest_collection_modifyitems(self, config, items):
        """Keep the tests that asked, and those that nothing is known of."""
        if self._wanted is None:
            return
        known = self._cache.get(_KEPT, {}) if self._cache else {}
        wanted = {"process", *_VARIABLES} if self._wanted == "any" else {self._wanted}
        asks = {item: bool(wanted & set(known.get(item.nodeid, wanted))) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if not asks[item]])
        items[:] = [item for item in items if asks[item]]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        """Forget what was asked between tests."""
        _heard.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        """Say in the report what was asked for until now."""
        report = yield
        report.user_properties.append((_PROPERTY, sorted(_heard)))
        return report

    def pytest_runtest_logreport(self, report):
        """Take the reports, the workers' too."""
        asked = self._asked.setdefault(report.nodeid, set())
        asked.update(*(value for name, value in report.user_properties if name == _PROPERTY))

    def pytest_sessionfinish(self):
        """Keep it for the next session, unless this one had nothing to find."""
        if self._reads and self._wanted is None and self._cache:
            known = self._cache.get(_KEPT, {})
            now = {test: sorted(asked) for test, asked in self._asked.items()}
            self._cache.set(_KEPT, known | now)
