"""Runs what containers run, without an engine: from a root file system, in namespaces of its own.

As an engine does with `read_only`: nothing is writable but volumes. Only root may do that. Processes share a
network of their own.
"""

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes.programs import leave_out

_LOOPBACK = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    flags, = struct.unpack("16xH14x", fcntl.ioctl(one, 0x8913, struct.pack("16s16x", b"lo")))
    fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))
print("up", flush=True)
sys.stdin.read()
"""
"""Brings the loopback up, and stays until its input ends."""


class Network:
    """A network with nothing but a loopback of its own; it goes with its context."""

    def __enter__(self):
        if os.geteuid() != 0:
            leave_out("in namespaces: only root may make them")
        self._holder = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", _LOOPBACK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout.readline() == "up\n"
        return self

    def __exit__(self, *_):
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()

    @property
    def enter(self):
        """The words before a command that is to run in it."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]


@dataclass
class Container:
    """How to run commands in a root file system, which stays as it is.

    `mounts`: (what of this machine, where there, whether writable). `user`: `uid:gid`. `read_only`: the root.
    """

    root: Path
    network: Network
    environment: dict[str, str]
    mounts: list[tuple[Path, str, bool]] = field(default_factory=list)
    user: str = "10001:10001"
    folder: str = "/"
    read_only: bool = True

    def command(self, *words):
        """Return the words that run `words` there."""
        given = [f"{key}={value}" for key, value in self.environment.items()]
        change = ["chroot", f"--userspec={self.user}", f"--groups={self.user.partition(':')[2]}", "/mnt/root"]
        inside = shlex.join([*change, "env", "-i", f"--chdir={self.folder}", *given, *map(str, words)])
        script = "\n".join(["set -e", *self._mounted(), f"exec {inside}"])
        return [*self.network.enter, "unshare", "--mount", "bash", "-c", script]

    def run(self, *words, seconds=120):
        """Run them to their end; return (exit code, all they said)."""
        done = subprocess.run(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=seconds,
        )
        return done.returncode, done.stdout

    def start(self, log, *words):
        """Start them; all they say goes to the file `log`."""
        with log.open("ab") as said:
            return subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def _mounted(self):
        """Yield the commands that put the root together, at /mnt/root of the process's own mounts.

        What they write, the places of mounts alone, lies in memory above the root.
        """
        yield "mount -t tmpfs tmpfs /mnt"
        yield "mkdir /mnt/above /mnt/work /mnt/root"
        layers = f"lowerdir={self.root},upperdir=/mnt/above,workdir=/mnt/work"
        yield f"mount -t overlay -o {layers} overlay /mnt/root"
        devices = (Path("/dev"), "/dev", True)
        for source, place, writable in [devices, (Path("/proc"), "/proc", True), *self.mounts]:
            target = shlex.quote(f"/mnt/root{place}")
            if source.is_dir():
                yield f"mkdir -p {target}"
            else:
                yield f"mkdir -p $(dirname {target}); touch {target}"
            yield f"mount --rbind {shlex.quote(str(source))} {target}"
            if not writable:
                yield f"mount -o remount,bind,ro {target}"
        if self.read_only:
            yield "mount -o remount,ro /mnt/root"


def end(process, seconds=60):
    """Ask a process to end, as an engine does; return its exit code."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    return process.wait(seconds)
