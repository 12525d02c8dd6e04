"""Card fraud by a linear SVM, three owners (Wu et al. 2020, figures 7 to 11).

The first hours of the paper's transactions (6,000 of the owners, 1,972 public; 25 frauds in all), hinge loss
and g_1 = 1/2 ||theta||^2, Algorithm 2 with c_1 = 1, Xi = 6 in L1, rows of L2 norm at most 1. Sizes are a
fifteenth of the paper's. So few frauds say nothing about fraud: the cost is what is measured.
"""

from experiments.harness.star_figures import against_epsilon, against_size, scenarios, surface, trajectories
from experiments.harness.study import Study

WHAT = "Card transactions"


def main(study: Study) -> None:
    """Draw collaboration-cards-*."""
    for sketch in (trajectories, surface, against_epsilon, against_size, scenarios):
        sketch(study, "cards", WHAT)
