"""Kafka's jars: fetched once by Maven, as pom.xml lists them, and from then on taken from a cache folder."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from streams.broker.deployed import deployed
from streams.broker.errors import BrokerError, Missing

Say = Callable[[str], None]


def find_jars(say: Say) -> Path:
    """Return the folder of the jars, filled on the first call of this user on this machine.

    Any number of processes may ask at once: one fetches, the others wait. `say` is told before it takes long.
    Raises Missing without Maven, BrokerError where Maven fails.
    """
    pom = deployed("pom.xml")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirrormesh"
    folder = cache / f"broker-{sha256(pom.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(pom, folder, say)
    return folder


def _fetch(pom: Path, folder: Path, say: Say) -> None:
    """Let Maven fill a folder beside, and give it its name once it is whole."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("mvn is missing: install maven (it fetches Kafka's jars, once)")
    say("fetching Kafka by Maven, once: 43 MB")
    partial, log = folder.with_suffix(".partial"), folder.with_suffix(".log")
    shutil.rmtree(partial, ignore_errors=True)
    quiet = ["--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    with log.open("w") as said:
        done = subprocess.run(  # noqa: S603 # fixed arguments
            [maven, *quiet, "--file", str(pom), *goal],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("[ERROR]")] or lines[-5:]
        raise BrokerError("\n".join([f"Maven could not fetch Kafka (all it said: {log}):", *errors[:5]]))
    partial.rename(folder)
