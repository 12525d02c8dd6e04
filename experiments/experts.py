"""Makes deploy/meshes/experts/losses.csv.gz: what each of ten rules of thumb about Adult's rows gets wrong.

    python experiments/experts.py

A rule reads one column and says whether the income is above 50,000 dollars; its loss is 1 where it is wrong,
else 0. Rows are those of the training file, in its order.
"""

import csv
import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path

MESHES = Path(__file__).parents[1] / "deploy" / "meshes"
OUTPUT = MESHES / "experts" / "losses.csv.gz"
RULES: dict[str, Callable[[Mapping[str, str]], bool]] = {
    "never": lambda _: False,
    "always": lambda _: True,
    "married": lambda row: row["marital-status"] == "Married-civ-spouse",
    "male": lambda row: row["sex"] == "Male",
    "graduate": lambda row: int(row["education-num"]) >= 13,
    "master": lambda row: int(row["education-num"]) >= 14,
    "manager": lambda row: row["occupation"] in {"Exec-managerial", "Prof-specialty"},
    "long-hours": lambda row: int(row["hours-per-week"]) > 40,
    "middle-aged": lambda row: 35 <= int(row["age"]) < 60,
    "capital-gain": lambda row: int(row["capital-gain"]) > 5000,
}


def losses() -> bytes:
    """Return the table as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*RULES, "rich"])
    with gzip.open(MESHES / "adult" / "adult_train.csv.gz", "rt", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            rich = row["income"] == ">50K"
            writer.writerow([*(int(rule(row) != rich) for rule in RULES.values()), int(rich)])
    return text.getvalue().encode()


if __name__ == "__main__":
    OUTPUT.write_bytes(gzip.compress(losses(), 9, mtime=0))
    print(f"wrote {OUTPUT}")
