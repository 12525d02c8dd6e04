"""The experiments by name: `mirrormesh experiment list`."""

from typing import NamedTuple


class Experiment(NamedTuple):
    """A module with `main(study)`, what it shows, and the figure or table of which paper."""

    module: str
    shows: str
    source: str


EXPERIMENTS = {
    "tracking-regret": Experiment(
        "experiments.tracking_regret", "regret against the privacy level", "Zhou, Li 2025, figure 1"
    ),
}
