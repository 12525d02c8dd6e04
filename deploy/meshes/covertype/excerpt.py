"""How the two files beside this one were made of `covtype.data.gz`, from the address in NOTICE.md.

    python excerpt.py covtype.data.gz

Rows are drawn without replacement, in an order that a seed gives. The columns of one-hot digits become one
number each: the wilderness area from 1 to 4, the soil type from 1 to 40.
"""

import gzip
import sys
from pathlib import Path

import numpy as np

SEED, LEARNT, HELD_OUT = 0, 12_000, 4_000
COLUMNS = (
    "elevation,aspect,slope,water-distance,water-height,road-distance,shade-9,shade-12,shade-15,fire-distance,"
    "wilderness,soil,cover"
)


def written(path: Path, rows: np.ndarray) -> None:
    """Write the rows as CSV; the same bytes every time."""
    text = "\n".join([COLUMNS, *(",".join(map(str, row)) for row in rows.tolist()), ""])
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def main(original: str) -> None:
    """Draw the rows, and write both files."""
    with gzip.open(original, "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.int64)
    one_hot = (rows[:, 10:14].argmax(1) + 1, rows[:, 14:54].argmax(1) + 1, rows[:, 54])
    short = np.column_stack((rows[:, :10], *one_hot))
    drawn = short[np.random.default_rng(SEED).permutation(len(short))[: LEARNT + HELD_OUT]]
    folder = Path(__file__).parent
    written(folder / "covertype_train.csv.gz", drawn[:LEARNT])
    written(folder / "covertype_test.csv.gz", drawn[LEARNT:])


if __name__ == "__main__":
    main(sys.argv[1])
