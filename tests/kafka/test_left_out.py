"""Tests whose programs are missing are left out, loudly; with CI set nothing is left out."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASKING = {
    "tests/kafka/test_broker.py::test_records_go_in_and_come_out": "on a real Kafka: java is missing: "
    "install openjdk-17-jre-headless (Java 17 or later); mvn is missing: install maven",
    "tests/deploy/test_alerts.py::test_prometheus_takes_the_configuration": "with promtool: "
    "promtool is missing: install prometheus",
}
"""Tests, and what is said where they are left out."""


def without_programs(tmp_path, **more):
    kept = {name: value for name, value in os.environ.items() if name not in {"CI", "JAVA_HOME"}}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'inner'}",
        *ASKING,
    ]
    environment = kept | {"PATH": str(tmp_path)} | more
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_left_out_loudly(tmp_path):
    done = without_programs(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "2 skipped" in done.stdout
    for why in ASKING.values():
        assert done.stdout.count(f"LEFT OUT: 1 test {why}") == 1
    *_, kafka, promtool, counts = done.stdout.splitlines()  # the last lines, as the README says
    assert "LEFT OUT" in kafka
    assert "LEFT OUT" in promtool
    assert "2 skipped" in counts


def test_never_left_out_in_ci(tmp_path):
    done = without_programs(tmp_path, CI="true")
    assert done.returncode == 1
    assert "1 failed, 1 error" in done.stdout
    for why in ASKING.values():
        assert why in done.stdout
    assert "LEFT OUT" not in done.stdout
