"""Java: where it is, and the command that runs a class of Kafka in it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from streams.broker.errors import Missing

LEAST = 17
_INSTALL = f"install openjdk-17-jre-headless (Java {LEAST} or later)"


def find_java() -> str:
    """Return the path of a Java that Kafka runs on: of JAVA_HOME, else of PATH. Raises Missing."""
    home = os.environ.get("JAVA_HOME")
    found = (shutil.which("java", path=Path(home) / "bin") if home else None) or shutil.which("java")
    if found is None:
        raise Missing(f"java is missing: {_INSTALL}")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 # fixed arguments
    version = re.search(r'version "(\d+)', said.stderr)
    if said.returncode != 0 or version is None:
        raise Missing(f"{found} -version fails: {_INSTALL}")
    if int(version[1]) < LEAST:
        raise Missing(f"{found} is Java {version[1]}: {_INSTALL}")
    return found


def kafka_command(java: str, jars: Path, entry: str, *arguments: str) -> list[str]:
    """Return the command that runs class `entry`; it logs as log4j2.yaml in its working directory says."""
    small = ["-Xmx256m", "-XX:+UseSerialGC"]
    log = "-Dlog4j2.configurationFile=log4j2.yaml"
    return [java, *small, log, "-cp", f"{jars}/*", entry, *arguments]
