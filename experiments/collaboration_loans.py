"""Interest rates of loans by linear regression, three owners (Wu et al. 2020, figures 2 to 6).

A part of LendingClub's loans (30,000 of the owners, 8,576 public), squared loss, Algorithm 2 with c_1 = 5,
Xi = 50 in L1 and the rate in percentage points. Sizes are a tenth of the paper's. Its settings of Xi, c_1 and
theta_max are not printed. "Not clipped" is the paper's own form, where Xi is assumed.
"""

from experiments.harness.star_figures import against_epsilon, against_size, scenarios, surface, trajectories
from experiments.harness.study import Study

WHAT = "Loans"


def main(study: Study) -> None:
    """Draw collaboration-loans-*."""
    for sketch in (trajectories, surface, against_epsilon, against_size, scenarios):
        sketch(study, "loans", WHAT)
