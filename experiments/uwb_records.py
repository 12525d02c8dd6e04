"""Makes the distances of `uwb.yaml`: eight anchors in one wall, a tag at rest, in motion, at rest.

    python experiments/uwb_records.py

Every number comes from a seed; the geometry is that of a real site. A distance every 0.12 s, with an error of
3 cm; 3 % of them are missing, 5 % are echoes, 0 to 2 m too long, and each anchor is silent once for 4 s.
Writes deploy/meshes/uwb/anchor-K.csv.gz: time in s, distance in m, and the tag's true place for the owner's
metrics.
"""

import gzip
from pathlib import Path

import numpy as np

from experiments.curvature_rules import PERIOD
from experiments.tracking_wall import traces

FOLDER = Path(__file__).parents[1] / "deploy" / "meshes" / "uwb"
ROUNDS, SEED = 1_000, 40


def main(folder: Path = FOLDER) -> None:
    """Write a file for each anchor."""
    folder.mkdir(parents=True, exist_ok=True)
    targets, measured = traces("wall, echoes", ROUNDS, 1, SEED)
    for anchor, distances in enumerate(measured[:, 0].T, 1):
        lines = ["time,distance,x,y"]
        for k, (distance, place) in enumerate(zip(distances, targets[:, 0], strict=True)):
            if not np.isnan(distance):
                lines.append(f"{(k + 0.5) * PERIOD:.2f},{distance:.3f},{place[0]:.3f},{place[1]:.3f}")
        with gzip.GzipFile(folder / f"anchor-{anchor}.csv.gz", "wb", mtime=0) as file:
            file.write("\n".join([*lines, ""]).encode())


if __name__ == "__main__":
    main()
