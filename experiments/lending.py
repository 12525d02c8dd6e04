"""Makes deploy/meshes/lending/*.csv.gz: made-up loans of three banks, and public ones to test on.

    python experiments/lending.py

Nobody's data: every number is drawn from a seed. A loan's rate depends on amount, income, debt, term and
purpose, and on a bank's own customers; no bank is like the others.
"""

import gzip
from io import BytesIO
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "deploy/meshes/lending"
SIZES = {"bank-a": 12000, "bank-b": 8000, "bank-c": 300, "public": 2000}
HEAD = "amount,income,debt_ratio,term,late_payments,purpose,rate"
PURPOSES = ("car", "home", "debt", "other")


def loans(name: str, count: int) -> str:
    """Return the loans of one bank as CSV."""
    place = list(SIZES).index(name)
    random = np.random.Generator(np.random.PCG64(20 + place))
    richer = 0.2 * (place % 3 - 1)
    income = np.exp(random.normal(10.9 + richer, 0.5, count)).clip(12_000, 400_000)
    amount = np.exp(random.normal(9.2, 0.7, count)).clip(1_000, 60_000)
    ratio = random.beta(2, 5, count)
    term = random.choice([36, 60], count, p=[0.7, 0.3])
    late = random.poisson(0.4, count).clip(max=5)
    purpose = random.integers(0, 4, count)
    risk = 0.04 * np.log10(amount / 1000) - 0.05 * np.log10(income / 12_000) + 0.08 * ratio
    risk += 0.03 * (term == 60) + 0.02 * late + np.array([0.0, -0.01, 0.02, 0.01])[purpose]
    rate = (0.08 + risk + random.normal(0, 0.03, count)).clip(0.02, 0.35)
    rows = zip(amount, income, ratio, term, late, purpose, rate, strict=True)
    lines = [f"{a:.0f},{i:.0f},{d:.3f},{t},{late_},{PURPOSES[p]},{r:.4f}" for a, i, d, t, late_, p, r in rows]
    return "\n".join([HEAD, *lines]) + "\n"


def packed(text: str) -> bytes:
    """Return the text as gzip, the same bytes each time."""
    whole = BytesIO()
    with gzip.GzipFile(fileobj=whole, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(text.encode())
    return whole.getvalue()


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, count in SIZES.items():
        (FOLDER / f"{name}.csv.gz").write_bytes(packed(loans(name, count)))


if __name__ == "__main__":
    main()
