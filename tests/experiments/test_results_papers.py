"""What the texts say of the papers' experiments is what the tables beside them hold."""

import pytest

from tests.support.published.claims import Claim, check, curves, defined, rows

TEXTS, ADULT = "reuters-common", "adult-binary"
EPSILONS = ("epsilon = 1", "epsilon = 0.1", "epsilon = 0.01")
TARGETS = ("epsilon = 5", "epsilon = 1", "epsilon = 0.5")
DEGREES = ("mean degree 2", "mean degree 4", "mean degree 8")
BATCHES = ("h = 1", "h = 10", "h = 100")
SETS = ("Diabetes", "Covertype", "Adult")
SLOTS = ("h = 1", "h = 5", "h = 1, no privacy", "h = 5, no privacy")
ENDS = ("mean", "p10", "p90")
MAPS = ("||x||^2", "x'Qx")


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


CLAIMS = [
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
    *(
        Claim(
            text,
            "dola-variance-ends",
            [({"form": form, "lambda": weight, "case": case}, column) for case in cases],
        )
        for form, weight, column, text, cases in (
            ("as printed", "1", "regret_sd", "0.051 and 0.056, without privacy 0.0002 and 0.0003", SLOTS),
            ("as printed", "0.1", "regret_sd", "0.016 and 0.021, without 0.0015 and 0.0015", SLOTS),
            ("ours", "0.01", "regret_sd", "0.11 and 0.16, without 0.013 and 0.018", SLOTS),
            ("as printed", "1", "excess", "0.032 and 0.043", SLOTS[:2]),
            ("as printed", "0.1", "excess", "0.26 and 0.26", SLOTS[:2]),
            ("ours", "0.01", "excess", "0.60 and 0.56", SLOTS[:2]),
        )
    ),
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
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.table} {claim.said}")
def test_a_text_says_what_the_table_holds(claim):
    check(claim)
