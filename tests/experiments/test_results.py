"""What the texts say of results is what the tables beside them hold, to the digits that are said."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/results.md", "docs/performance.md", "docs/howto/write-a-mesh-file.md")
TEXT = "\n".join((ROOT / name).read_text() for name in PAGES)
SAID = " ".join(TEXT.split())
RESULTS = ROOT / "experiments" / "results"
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?")


class Claim(NamedTuple):
    """Words of a text, and the cells that their numbers are, in order."""

    said: str
    table: str
    cells: list[tuple[dict[str, str], str]]


def curves(said: str, table: str, *names: str, column: str = "mean") -> Claim:
    """The last points of curves."""
    return Claim(said, table, [({"curve": name}, column) for name in names])


def defined(said: str, table: str, *names: str) -> Claim:
    """The last points of curves of regret by its definition."""
    return curves(said, table, *names, column="definition_1")


def rows(said: str, table: str, key: str, names: Iterable[str], *columns: str) -> Claim:
    """Columns of the rows whose `key` is each of the names."""
    return Claim(said, table, [({key: name}, column) for name in names for column in columns])


def sparse(said: str, form: str, *cells: tuple[str, str, str]) -> Claim:
    """Columns of 64 nodes' rows of that form: (data, rho, column) each."""
    return Claim(
        said,
        "dola-sparse",
        [({"data": data, "form": form, "rho": rho}, column) for data, rho, column in cells],
    )


def few(rho: str) -> list[tuple[str, str, str]]:
    """The AUC of four nodes with noise, and without."""
    return [("epsilon-8", rho, "auc"), ("none", rho, "auc")]


TEXTS, ADULT = "reuters-common", "adult-binary"
EPSILONS = ("epsilon = 1", "epsilon = 0.1", "epsilon = 0.01")
TARGETS = ("epsilon = 5", "epsilon = 1", "epsilon = 0.5")
DEGREES = ("mean degree 2", "mean degree 4", "mean degree 8")
BATCHES = ("h = 1", "h = 10", "h = 100")
SETS = ("Diabetes", "Covertype", "Adult")
ENDS = ("mean", "p10", "p90")
MAPS = ("||x||^2", "x'Qx")
TEN = ("median", "least", "largest")


def banded(name: str) -> list[str]:
    return [f"{name}{suffix}" for suffix in ("", "_p10", "_p90")]


def tracked(rounds: int) -> list[str]:
    return [f"{name}_{rounds}" for name in ("definition_1", "own_p10", "own_p90")]


def errors(said: str, data: str, algorithm: str) -> Claim:
    """The errors of a forecast."""
    columns = ("near_median", "near_largest", "whole_median", "whole_largest")
    where = {"data": data, "algorithm": algorithm}
    return Claim(said, "collaboration-errors", [(where, column) for column in columns])


def by_records(said: str, cells: Iterable[tuple[str, str]], *columns: str) -> Claim:
    """Columns of the rows of so many records and that mechanism."""
    where = [{"records": records, "mechanism": mechanism} for records, mechanism in cells]
    return Claim(said, "income-records", [(one, column) for one in where for column in columns])


SPENT = ("epsilon = 0.1", "epsilon = 1", "epsilon = 10")
CLAIMS = [
    curves("psi 348, 0.69, 0.0067", "collaboration-loans-queries", *SPENT, column="median"),
    curves("psi 3.73, 0.0378, 0.00037", "collaboration-cards-queries", *SPENT, column="median"),
    errors("0.05 (0.26) | 0.06 (0.42)", "loans", "1"),
    errors("0.04 (0.11) | 0.04 (0.27)", "loans", "2"),
    errors("0.01 (0.02) | 0.01 (0.02)", "cards", "1"),
    errors("0.01 (0.03) | 0.01 (0.03)", "cards", "2"),
    defined("0.78 without noise, 1.02, 4.8 and 7.9", "tracking-regret", "no privacy", *TARGETS),
    curves("1.7, 7.8 and 10.4", "tracking-regret", *TARGETS, column="own_mean"),
    defined("the curves are nearly the same (1.03, 5.0, 7.9)", "tracking-regret-made", *TARGETS),
    defined("whole stream: 0.11, 0.18, 0.67", "tracking-regret-ours", *TARGETS),
    curves("own 0.11, 0.22, 1.0", "tracking-regret-ours", *TARGETS, column="own_mean"),
    defined("without privacy, 0.72", "tracking-regret-ours", "no privacy"),
    Claim(
        "theta = 3 0.91, 3.6 and 6.6",
        "tracking-regret-theta",
        [({"theta": "3"}, "theta")]
        + [({"theta": "3", "epsilon": e}, "definition_1") for e in ("5", "1", "0.5")],
    ),
    defined("0.98 to 1.02", "tracking-nodes", "sensor 2", "sensor 3"),
    defined("0.99 to 1.03", "tracking-nodes-made", "sensor 2", "sensor 3"),
    defined("0.102 to 0.108", "tracking-nodes-ours", "sensor 6", "sensor 5"),
    defined("2.2 against 4.4", "tracking-maps", *MAPS),
    defined("0.28 against 0.65", "tracking-maps-ours", *MAPS),
    *(
        Claim(said, "examples", [({"example": name, "figure": figure}, column) for column in TEN])
        for name, figure, said in (
            ("tracking", "off", "0.07 (0.01 to 0.15)"),
            ("tracking", "regret", "0.31 (0.17 to 0.69)"),
            ("tracking-mahalanobis", "off", "0.07 (0.06 to 0.24)"),
            ("tracking-mahalanobis", "regret", "0.61 (0.32 to 1.14)"),
            ("tracking-switching", "off", "0.11 (0.04 to 0.21)"),
            ("tracking-switching", "regret", "0.30 (0.16 to 0.76)"),
            ("income-gaussian", "auc", "0.863 (0.847 to 0.868)"),
            ("income-gaussian", "accuracy", "0.816 (0.805 to 0.828)"),
            ("experts", "regret", "0.032 (0.024 to 0.044)"),
            ("tracking-paper", "off", "0.62 (0.18 to 1.94)"),
            ("tracking-paper", "regret", "1.9 (1.1 to 3.9)"),
            ("income", "auc", "0.866 (0.853 to 0.874)"),
            ("income", "accuracy", "0.828 (0.820 to 0.835)"),
            ("forest-cover", "accuracy", "0.608 (0.583 to 0.623)"),
            ("emergency-visits", "auc", "0.631 (0.567 to 0.669)"),
            ("money-fx", "auc", "0.940 (0.918 to 0.949)"),
            ("money-fx", "accuracy", "0.958 (0.954 to 0.962)"),
            ("money-fx", "zeros", "0.91 (0.90 to 0.92)"),
            ("demo", "error", "0.014 (0.013 to 0.019)"),
            ("demo", "times", "110 (71 to 137)"),
        )
    ),
    curves("no privacy 0.062", "dola-privacy-laplace-ours", "no privacy"),
    curves("0.047, 0.48, 0.78", "dola-privacy-laplace-ours", *EPSILONS),
    curves("0.053, 0.28, 0.84", "dola-privacy-gaussian-ours", *EPSILONS),
    *(
        Claim(
            said,
            "dola-privacy-ends",
            [
                ({"form": form, "privacy": f"epsilon = {epsilon}"}, f"hinge{end}")
                for form in ("laplace", "gaussian", "laplace-ours", "gaussian-ours")
                for end in ("", "_p10", "_p90")
            ],
        )
        for epsilon, said in (
            (
                "1",
                "0.83 (0.79 to 0.87) | 0.89 (0.87 to 0.92) | 0.28 (0.27 to 0.28) | 0.28 (0.27 to 0.30)",
            ),
            (
                "0.1",
                "1.00 (0.99 to 1.01) | 1.00 (0.99 to 1.00) | 0.59 (0.49 to 0.70) | 0.48 (0.39 to 0.61)",
            ),
            (
                "0.01",
                "1.00 (0.99 to 1.01) | 1.00 (0.99 to 1.00) | 0.89 (0.68 to 1.08) | 0.93 (0.66 to 1.18)",
            ),
        )
    ),
    curves("0.006, 0.25, 0.74, 0.75", "dola-batches", "no privacy", *EPSILONS),
    curves("0.78, 0.75, 0.52", "dola-batches-sizes", *BATCHES),
    curves("0.003, 6.2, 61, 61", "dola-apart", "no privacy", *EPSILONS),
    curves("0.27, 0.081, 0.41, 0.92", "dola-batches-ours", "no privacy", *EPSILONS),
    curves("1.01, 0.92, 0.74", "dola-batches-sizes-ours", *BATCHES),
    curves("11, 32, 544, 549", "dola-apart-ours", "no privacy", *EPSILONS),
    curves("0.032 and 0.043", "dola-variance", "h = 1", "h = 5"),
    curves("ours 0.60 and 0.56", "dola-variance-ours", "h = 1", "h = 5"),
    curves("0.111, 0.110, 0.110", "dola-topology-none", *DEGREES),
    curves("0.54, 0.41, 0.37", "dola-topology-laplace", *DEGREES),
    curves("0.56, 0.51, 0.50", "dola-topology-gaussian", *DEGREES),
    curves("0.064, 0.047, 0.043", "dola-topology-laplace-ours", *DEGREES),
    curves("0.076, 0.053, 0.046", "dola-topology-gaussian-ours", *DEGREES),
    curves("0.110, 0.134, 0.173", "dola-data-none", *SETS),
    curves("0.41, 0.31, 0.47", "dola-data-laplace", *SETS),
    curves("0.51, 0.34, 0.23", "dola-data-gaussian", *SETS),
    curves("0.047, 0.141, 0.057", "dola-data-laplace-ours", *SETS),
    curves("0.053, 0.155, 0.093", "dola-data-gaussian-ours", *SETS),
    *(
        Claim(said, "dola-data", [({"form": form, "data": data}, column) for data in SETS])
        for said, form, column in (
            ("(best lambda 1, 1, 0.1)", "laplace", "lambda"),
            ("(1, 1, 1)", "gaussian", "lambda"),
            ("as printed 0.83, 1.00, 0.76", "laplace", "hinge"),
            ("ours 0.28, 0.98, 0.56", "laplace-ours", "hinge"),
        )
    ),
    curves("0.16 (0.19)", "dola-average", "as printed, average", "as printed, last"),
    curves("0.0078 (0.0102)", "dola-average-ours", "ours, average", "ours, last"),
    curves("0.010, 0.34, 0.80, 0.82", "dola-synthetic-privacy", "no privacy", *EPSILONS),
    curves("0.024, 0.20, 0.63, 0.73", "dola-synthetic-privacy-ours", "no privacy", *EPSILONS),
    curves("0.72, 0.70, 0.80", "dola-synthetic-nodes", "1 nodes", "4 nodes", "64 nodes"),
    curves("0.56, 0.29, 0.63", "dola-synthetic-nodes-ours", "1 nodes", "4 nodes", "64 nodes"),
    *(
        Claim(
            said,
            "dola-accuracy",
            [
                ({"privacy": privacy, "nodes": nodes}, f"{form}_{point}_accuracy")
                for nodes in ("1", "4", "64")
                for point in ("average", "last")
            ],
        )
        for privacy, form, said in (
            ("no privacy", "printed", "0.820 (0.812), 0.819 (0.795), 0.776 (0.715)"),
            ("epsilon = 1", "printed", "0.615 (0.584), 0.563 (0.500), 0.579 (0.499)"),
            ("epsilon = 1", "ours", "0.761 (0.789), 0.751 (0.755), 0.731 (0.701)"),
            ("epsilon = 0.1", "ours", "0.750 (0.750), 0.735 (0.739), 0.523 (0.509)"),
            ("epsilon = 0.01", "ours", "0.634 (0.608), 0.512 (0.514), 0.509 (0.508)"),
        )
    ),
    Claim(
        "of the average: 0.796, 0.723, 0.617",
        "dola-accuracy",
        [({"privacy": "epsilon = 1", "nodes": nodes}, "ours_average_auc") for nodes in ("1", "4", "64")],
    ),
    *(
        Claim(said, f"dola-lambda-laplace-{measure}", [({"curve": curve, "x": x}, "mean") for x in xs])
        for said, measure, curve, xs in (
            ("regret 1.44, 1.04, 0.41, 0.11", "regret", "epsilon = 1", ("0.01", "0.1", "1", "10")),
            ("per record 1.18, 0.89, 0.83, 0.96", "hinge", "epsilon = 1", ("0.01", "0.1", "1", "10")),
        )
    ),
    *(
        Claim(said, f"dola-lambda-{form}-hinge", [({"curve": name, "x": "1"}, end) for end in ENDS])
        for form, name, said in (
            ("laplace", "epsilon = 1", "0.83 (0.79 to 0.87)"),
            ("gaussian", "epsilon = 1", "0.89 (0.87 to 0.92)"),
            ("laplace", "epsilon = 0.1", "1.00 (0.99 to 1.01)"),
            ("laplace", "epsilon = 0.01", "1.00 (0.99 to 1.01)"),
            ("gaussian", "epsilon = 0.1", "1.00 (0.99 to 1.00)"),
            ("gaussian", "epsilon = 0.01", "1.00 (0.99 to 1.00)"),
        )
    ),
    curves("0.001, 0.41, 0.775, 0.776", "dola-privacy-laplace", "no privacy", *EPSILONS),
    curves("0.001, 0.51, 0.774, 0.775", "dola-privacy-gaussian", "no privacy", *EPSILONS),
    *(
        sparse(said, form, (TEXTS, "0", "auc"), (ADULT, "0", "auc"))
        for form, said in (
            ("none", "no privacy 0.949 and 0.865"),
            ("printed", "0.495 and 0.586"),
            ("ours", "0.553 and 0.739"),
        )
    ),
    *(
        sparse(said, form, *((data, rho, column) for rho in rhos for column in ("auc", "zeros")))
        for said, form, data, rhos in (
            ("0.894 with 0.52 of zeros, 0.874 with 0.94 on Reuters", "none", TEXTS, ("0.02", "0.15")),
            ("0.862 with 0.50, 0.837 with 0.78 on Adult", "none", ADULT, ("0.05", "0.4")),
            ("0.557 with 0.28 of zeros on Reuters", "ours", TEXTS, ("0.4",)),
            ("0.743 with 0.01 on Adult", "ours", ADULT, ("0.02",)),
        )
    ),
    *(
        Claim(
            said,
            "dola-sparsity",
            [({"form": form, "nodes": "4", "rho": rho}, column) for form, rho, column in cells],
        )
        for said, cells in (
            ("0.847 (0.856) without a lasso", few("0")),
            ("0.824 (0.831) with 0.53 of zeros", [*few("0.045"), ("epsilon-8", "0.045", "zeros")]),
            ("0.868 (0.870) with 0.92", [*few("0.15"), ("epsilon-8", "0.15", "zeros")]),
            ("an AUC of 0.847 (0.856)", few("0")),
            ("0.53 of zeros 0.824 (0.831)", [("epsilon-8", "0.045", "zeros"), *few("0.045")]),
            ("0.92 of zeros 0.868 (0.870)", [("epsilon-8", "0.15", "zeros"), *few("0.15")]),
        )
    ),
    *(
        Claim(
            said,
            "dola-sparsity",
            [({"nodes": "64", "mean_degree": degree, "rho": rho}, "auc") for degree in ("2", "4", "8")],
        )
        for said, rho in (
            ("AUC 0.937, 0.949, 0.955 without", "0"),
            ("0.868, 0.872, 0.872 with", "0.04"),
            ("0.870, 0.874, 0.875 with", "0.15"),
        )
    ),
    rows("the larger class alone: 0.7495", "dola-accuracy", "nodes", ["1"], "majority"),
    rows(
        "epsilon 0.85, one of the first 0.001, a node's whole stream 15.3",
        *("dola-privacy-true", "stated", ["1"]),
        *("record_of_round_T", "record_of_round_1", "whole_stream_of_a_node"),
    ),
    *(
        rows(said, "tracking-moving", "case", [name], *banded("plain"), *banded("velocity"), "ratio")
        for name, said in {
            "0.001 none": "0.0058 (0.0056 to 0.0061) | 0.0022 (0.0020 to 0.0024) | 2.7",
            "0.001 l2-sphere 0.3": "0.087 (0.065 to 0.14) | 0.048 (0.035 to 0.11) | 1.8",
            "0.001 l2-sphere 1": "0.020 (0.017 to 0.023) | 0.0076 (0.0065 to 0.0094) | 2.6",
            "0.001 l2-sphere 4": "0.0094 (0.0091 to 0.0099) | 0.0039 (0.0035 to 0.0048) | 2.4",
            "0.001 laplace 0.3": "0.20 (0.13 to 0.38) | 0.63 (0.18 to 1.1) | 0.3",
            "0.001 laplace 1": "0.043 (0.031 to 0.061) | 0.013 (0.011 to 0.019) | 3.4",
            "0.001 laplace 4": "0.0097 (0.0093 to 0.010) | 0.0037 (0.0033 to 0.0042) | 2.6",
            "0.003 none": "0.0100 (0.0095 to 0.010) | 0.0035 (0.0032 to 0.0042) | 2.8",
            "0.003 l2-sphere 0.3": "0.25 (0.21 to 0.42) | 1.1 (0.27 to 1.7) | 0.2",
            "0.003 l2-sphere 1": "0.040 (0.037 to 0.044) | 0.015 (0.013 to 0.021) | 2.6",
            "0.003 l2-sphere 4": "0.017 (0.017 to 0.018) | 0.0068 (0.0064 to 0.0075) | 2.5",
            "0.003 laplace 0.3": "0.49 (0.36 to 0.72) | 0.96 (0.63 to 1.3) | 0.5",
            "0.003 laplace 1": "0.078 (0.062 to 0.10) | 0.039 (0.030 to 0.059) | 2.0",
            "0.003 laplace 4": "0.018 (0.018 to 0.019) | 0.0064 (0.0058 to 0.0078) | 2.9",
            "0.01 none": "0.020 (0.020 to 0.021) | 0.0066 (0.0062 to 0.0077) | 3.1",
            "0.01 l2-sphere 0.3": "0.75 (0.52 to 0.79) | 0.77 (0.57 to 0.89) | 1.0",
            "0.01 l2-sphere 1": "0.14 (0.13 to 0.15) | 0.067 (0.052 to 0.17) | 2.1",
            "0.01 l2-sphere 4": "0.048 (0.046 to 0.049) | 0.015 (0.013 to 0.044) | 3.1",
            "0.01 laplace 0.3": "0.75 (0.58 to 0.79) | 0.80 (0.56 to 0.99) | 0.9",
            "0.01 laplace 1": "0.23 (0.20 to 0.27) | 0.27 (0.21 to 0.33) | 0.9",
            "0.01 laplace 4": "0.040 (0.038 to 0.042) | 0.013 (0.012 to 0.017) | 3.1",
        }.items()
    ),
    rows(
        "0.0021, 0.0035 and 0.0058 at the three speeds",
        *("tracking-moving", "case", ["0.001 kalman", "0.003 kalman", "0.01 kalman"], "velocity"),
    ),
    *(
        rows(said, "utility-income", "mechanism", [name], *banded("auc"), *banded("accuracy"))
        for name, said in {
            "none": "0.892 (0.891 to 0.894) | 0.844 (0.843 to 0.845)",
            "laplace on parameters": "0.424 (0.297 to 0.530) | 0.451 (0.316 to 0.672)",
            "laplace": "**0.868** (0.861 to 0.871) | 0.802 (0.768 to 0.813)",
            "gaussian": "0.866 (0.857 to 0.872) | 0.825 (0.822 to 0.829)",
            "l2-sphere": "0.749 (0.728 to 0.781) | 0.764 (0.749 to 0.775)",
            "gaussian-bisr": "**0.878** (0.875 to 0.880) | 0.832 (0.817 to 0.837)",
        }.items()
    ),
    *(
        rows(said, "utility-tracking", "mechanism", [name], *tracked(500), *tracked(5000))
        for name, said in {
            "none, as printed": "0.78 (0.75 to 0.79) | 0.080 (0.080 to 0.083)",
            "as printed": "4.6 (3.8 to 12) | 1.4 (1.8 to 5.1)",
            "none": "0.025 (0.023 to 0.027) | 0.0025 (0.0022 to 0.0027)",
            "laplace on parameters": "0.50 (0.17 to 1.6) | 0.051 (0.023 to 0.14)",
            "laplace": "0.53 (0.16 to 1.2) | 0.054 (0.021 to 0.13)",
            "gaussian": "1.7 (0.49 to 4.8) | 0.20 (0.063 to 0.53)",
            "l2-sphere": "0.19 (0.090 to 0.46) | **0.020** (0.012 to 0.047)",
            "gaussian-bisr": "0.58 (0.43 to 0.90) | 0.064 (0.051 to 0.10)",
        }.items()
    ),
    *(
        rows(said, "income", "epsilon", [name], *(f"{of}_{end}" for of in ("auc", "accuracy") for end in TEN))
        for name, said in {
            "none": "0.884 (0.882 to 0.886) | 0.834 (0.832 to 0.842)",
            "10": "0.884 (0.881 to 0.887) | 0.834 (0.831 to 0.842)",
            "1": "0.864 (0.852 to 0.872) | 0.828 (0.809 to 0.834)",
            "0.3": "0.786 (0.693 to 0.830) | 0.765 (0.755 to 0.793)",
        }.items()
    ),
    *(
        by_records(said, [(records, "laplace"), (records, "none")], *banded("auc"))
        for records, said in {
            "250": "0.620 (0.521 to 0.705) | 0.876 (0.868 to 0.881)",
            "1000": "0.795 (0.759 to 0.814) | 0.889 (0.883 to 0.891)",
            "7733": "0.865 (0.857 to 0.869) | 0.892 (0.892 to 0.894)",
        }.items()
    ),
    by_records(
        "an AUC of 0.620 (0.521 to 0.705), 0.795 (0.759 to 0.814) and 0.865 (0.857 to 0.869)",
        [(records, "laplace") for records in ("250", "1000", "7733")],
        *banded("auc"),
    ),
    by_records(
        "and 0.876, 0.889 and 0.892 without privacy",
        [(records, "none") for records in ("250", "1000", "7733")],
        "auc",
    ),
]


def cell(table: str, where: dict[str, str], column: str) -> float:
    """The last cell of that column in the rows that are so."""
    with (RESULTS / f"{table}.csv").open() as file:
        found = [row for row in csv.DictReader(file) if where.items() <= row.items()]
    return float(found[-1][column])


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.table} {claim.said}")
def test_a_text_says_what_the_table_holds(claim):
    assert claim.said in SAID
    said = NUMBER.findall(claim.said)
    held = [cell(claim.table, where, column) for where, column in claim.cells]
    assert len(said) == len(held)
    for number, value in zip(said, held, strict=True):
        digits = len(number.partition(".")[2])
        assert abs(value - float(number.replace(",", ""))) <= 0.5 * 10**-digits + 1e-9, (number, value)


def test_every_table_is_named_and_every_curve_is_drawn():
    """A name, or what it begins with: `dola-batches-ours` stands under `dola-batches`."""
    named = set(re.findall(r"[`/(]([\w-]+)(?:\.png|\.csv)?[`)]", TEXT))
    for table in RESULTS.glob("*.csv"):
        name = table.stem
        assert any(name == one or name.startswith(f"{one}-") for one in named), name
        if table.read_text().startswith("curve,"):
            assert table.with_suffix(".png").exists(), name
