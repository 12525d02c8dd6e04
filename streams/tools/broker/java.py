"""Finds Java and Kafka's jars, and makes the command that runs a class of Kafka."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

LEAST = 17
VERSION = "MIRRORMESH_KAFKA"
"""The environment variable that names another version of Kafka than that of pom.xml."""
_INSTALL = f"install openjdk-17-jre-headless (Java {LEAST} or later)"


def find_java() -> str:
    """Return the path of a Java for Kafka, from JAVA_HOME or PATH. Raises Missing."""
    home = os.environ.get("JAVA_HOME")
    path = (shutil.which("java", path=Path(home) / "bin") if home else None) or shutil.which("java")
    if path is None:
        raise Missing(f"java is missing: {_INSTALL}")
    result = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 # fixed arguments
    version = re.search(r'version "(\d+)', result.stderr)
    if result.returncode != 0 or version is None:
        raise Missing(f"{path} -version fails: {_INSTALL}")
    if int(version[1]) < LEAST:
        raise Missing(f"{path} is Java {version[1]}: {_INSTALL}")
    return path


def kafka_command(java: str, jars: Path, entry: str, *arguments: str) -> list[str]:
    """Return the command that runs class `entry`; log4j2.yaml in its working directory sets its log."""
    small = ["-Xmx256m", "-XX:+UseSerialGC"]
    log = "-Dlog4j2.configurationFile=log4j2.yaml"
    return [java, *small, log, "-cp", f"{jars}/*", entry, *arguments]


Say = Callable[[str], None]


def find_jars(say: Say) -> Path:
    """Return the folder of the jars, filled on the user's first call on this machine.

    Any number of processes may call at once: one fetches the jars, and the others wait. `say` is called
    before long work. Raises Missing without Maven, BrokerMisused for a VERSION that is no version,
    BrokerError if Maven fails.
    """
    pom, version = deployed("pom.xml"), _version()
    kind = sha256(pom.read_bytes()).hexdigest()[:16] + (f"-{version}" if version else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirrormesh"
    folder = cache / f"broker-{kind}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(pom, version, folder, say)
    return folder


def _version() -> str | None:
    """Return the version of Kafka that the environment names, if any."""
    version = os.environ.get(VERSION) or None
    if version is not None and not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise BrokerMisused(f"{VERSION} is {version!r}: must be a version of Kafka such as 4.1.0")
    return version


def _fetch(pom: Path, version: str | None, folder: Path, say: Say) -> None:
    """Fill a temporary folder with Maven, and rename it when it is complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("mvn is missing: install maven (it fetches Kafka's jars, once)")
    say("fetching Kafka by Maven, once: 43 MB")
    partial, log = folder.with_name(f"{folder.name}.partial"), folder.with_name(f"{folder.name}.log")
    shutil.rmtree(partial, ignore_errors=True)
    quiet = ["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    if version is not None:
        goal.append(f"-Dkafka.version={version}")
    with log.open("w") as log_file:
        result = subprocess.run(  # noqa: S603 # fixed arguments
            [maven, *quiet, "--file", str(pom), *goal],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if result.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("[ERROR]")] or lines[-5:]
        raise BrokerError("\n".join([f"Maven could not fetch Kafka (all it said: {log}):", *errors[:5]]))
    partial.rename(folder)


class BrokerError(Exception):
    """The broker is not available; the text is one line, followed by a log's last lines if there is one."""


class Missing(BrokerError):
    """A program is missing on this machine; the text says what to install."""


class BrokerMisused(BrokerError):
    """The request cannot be met: another folder, port or kind is needed."""


def deployed(name: str) -> Path:
    """Return the path of `name` in deploy/broker. Raises FileNotFoundError if neither place has it."""
    package = Path(str(files("streams")))
    for folder in (package / "deploy_broker", package.parent / "deploy" / "broker"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(2, "this installation lacks a file of the development broker", name)
