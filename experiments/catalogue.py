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
    "tracking-nodes": Experiment(
        "experiments.tracking_nodes", "each node's regret at epsilon = 5", "Zhou, Li 2025, figure 2"
    ),
    "tracking-maps": Experiment(
        "experiments.tracking_maps", "Euclidean against Mahalanobis steps", "Zhou, Li 2025, figure 3"
    ),
    "utility": Experiment("experiments.utility", "what each mechanism leaves at epsilon = 1", "ours"),
    "growth": Experiment("experiments.growth", "the engine's time and memory against N, d, T", "ours"),
}
