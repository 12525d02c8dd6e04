"""`make test-bare` finds the tests that ask the machine for something, whether or not anyone has said so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.conftest import pytest_addoption, pytest_configure\n"
TESTS = """
import os, subprocess, sys
from pathlib import Path

def test_arithmetic():
    assert 1 + 1 == 2

def test_program():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_home():
    Path("~").expanduser()

def test_terminal():
    "TERM" in os.environ
"""
NEW = """
def test_new():
    pass
"""


pytestmark = pytest.mark.slow


@pytest.fixture
def inner(tmp_path):
    """`inner("--asked-for", "any")`: the names of the tests that such a session runs."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_inner.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}

    def run(*options):
        command = [sys.executable, "-m", "pytest", "--verbose", "--numprocesses", "1", *options]
        environment = kept | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line for line in done.stdout.splitlines() if " PASSED " in line]
        return {line.split("::")[1].split()[0].removeprefix("test_") for line in lines}

    return run


def test_who_asks_is_heard_and_who_is_new_counts_as_one_who_asks(inner, tmp_path):
    everyone = {"arithmetic", "program", "home", "terminal"}
    assert inner("--asked-for", "any") == everyone  # nothing is known yet
    assert inner() == everyone
    assert inner("--asked-for", "any") == everyone - {"arithmetic"}
    assert inner("--asked-for", "TERM") == {"terminal"}
    (tmp_path / "test_inner.py").write_text(TESTS + NEW)
    assert inner("--asked-for", "any") == everyone - {"arithmetic"} | {"new"}
