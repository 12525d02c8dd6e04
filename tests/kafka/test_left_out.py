"""Without Java the tests on a real Kafka are left out, loudly; with CI set nothing is left out."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ONE = "tests/kafka/test_broker.py::test_records_go_in_and_come_out"


def without_java(tmp_path, **more):
    kept = {name: value for name, value in os.environ.items() if name not in {"CI", "JAVA_HOME"}}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'inner'}",
        ONE,
    ]
    environment = kept | {"PATH": str(tmp_path)} | more
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_left_out_loudly(tmp_path):
    done = without_java(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    line = "LEFT OUT: 1 test on a real Kafka: java is missing: install openjdk-17-jre-headless"
    assert line in done.stdout


def test_never_left_out_in_ci(tmp_path):
    done = without_java(tmp_path, CI="true")
    assert done.returncode == 1
    assert "on a real Kafka: java is missing" in done.stdout
    assert "LEFT OUT" not in done.stdout
