"""Makes the committed pictures anew: runs the mesh that they show, with a Prometheus, and draws dashboards.

python -m grafana.pictures --minutes 5
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MESH = Path("deploy/meshes/tracking-switching.yaml")
PORT, FIRST = 9090, 9100
READY = 120.0
"""Seconds until the mesh runs, which are not shown."""


def main() -> None:
    """Run, draw and stop."""
    asked = argparse.ArgumentParser(description="Make the pictures of the dashboards anew.")
    asked.add_argument("--minutes", type=float, default=5.0, help="how long the mesh runs (5)")
    minutes: float = asked.parse_args().minutes
    mirrormesh = str(Path(sys.executable).with_name("mirrormesh"))
    with tempfile.TemporaryDirectory() as folder:
        up = [
            mirrormesh,
            "up",
            str(MESH),
            "--rate",
            "8",
            "--observe",
            "--plain",
            "--state",
            f"{folder}/state",
        ]
        running = subprocess.Popen(  # noqa: S603 # our own command
            [*up, "--prometheus-port", str(PORT), "--metrics-from", str(FIRST)]
        )
        try:
            time.sleep(60 * minutes + READY)
            drawing = [sys.executable, "-m", "grafana.draw", f"http://127.0.0.1:{PORT}"]
            subprocess.run(  # noqa: S603 # as above
                [*drawing, "--mesh", MESH.stem, "--minutes", str(minutes)], check=True
            )
        finally:
            running.terminate()
            running.wait()


if __name__ == "__main__":
    main()
