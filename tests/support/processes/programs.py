"""Programs that a machine may lack: a test asks for them here, and is left out where one is missing."""

import os
import shutil
import subprocess
from collections import Counter
from typing import Never

import pytest

PACKAGES = {
    "amtool": "prometheus-alertmanager",
    "basename": "coreutils",
    "dirname": "coreutils",
    "install": "coreutils",
    "java": "openjdk-17-jre-headless",
    "kubectl": "kubernetes-client",
    "mvn": "maven",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "systemd-analyze": "systemd",
    "bash": "bash",
    "buildah": "buildah",
    "mktemp": "coreutils",
    "mmdebstrap": "mmdebstrap",
    "od": "coreutils",
    "realpath": "coreutils",
    "rm": "coreutils",
    "sed": "sed",
    "sha256sum": "coreutils",
}
"""The Debian package that brings each."""
_LEFT_OUT = "left out: "


def need(*programs: str) -> None:
    """Go on where there are these programs; else leave the test out, or fail it if CI is set."""
    for program in programs:
        if shutil.which(program) is None:
            leave_out(f"with {program}: {missing(program)}")


def missing(program: str) -> str:
    """Say that it is missing, and what brings it."""
    return f"{program} is missing: install {PACKAGES[program]}"


def leave_out(why: str) -> Never:
    """Leave the running test out, or fail it if CI is set. `why`: what kind of test, and what is missing."""
    if os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    pytest.skip(f"{_LEFT_OUT}{why}")


def left_out(skipped: list[pytest.TestReport]) -> list[str]:
    """Return a line for each reason why tests were left out."""
    said = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    found = Counter(one.partition(_LEFT_OUT)[2] for one in said if _LEFT_OUT in one)
    return [f"LEFT OUT: {n} {'test' if n == 1 else 'tests'} {why}" for why, n in sorted(found.items())]


def promtool(*arguments, given=None, folder=None):
    """Return what promtool says, on `given` as its input, and whether it is content."""
    need("promtool")
    done = subprocess.run(
        ["promtool", *arguments],
        input=given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr, done.returncode == 0


def systemd_analyze(*arguments, folder):
    """Return the exit code of systemd-analyze and what it says of units in the folder."""
    need("systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", *arguments],
        cwd=folder,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:", "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.strip()
