"""The experiments by name: `python -m experiments list`."""

from typing import NamedTuple


class Experiment(NamedTuple):
    """A module with `main(study)`, what it shows, whose figure or table it is, and what sets it reads."""

    module: str
    shows: str
    source: str
    data: tuple[str, ...] = ()


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
    "tracking-moving": Experiment(
        "experiments.tracking_moving", "a target that keeps moving, with and without a velocity", "ours"
    ),
    "utility": Experiment("experiments.utility", "what each mechanism leaves at epsilon = 1", "ours"),
    "untuned": Experiment(
        "experiments.untuned", "one release a node, that nothing is tuned for, by set and records", "ours"
    ),
    "growth": Experiment("experiments.growth", "the engine's time and memory against N, d, T", "ours"),
    "dola-lambda": Experiment(
        "experiments.dola_lambda",
        "the printed form over lambda",
        "Li et al. 2018, figures 3a, 3b",
        ("diabetes",),
    ),
    "dola-privacy": Experiment(
        "experiments.dola_privacy",
        "regret against the privacy level",
        "Li et al. 2018, figures 3a, 3b",
        ("diabetes",),
    ),
    "dola-topology": Experiment(
        "experiments.dola_topology",
        "regret against the graph",
        "Li et al. 2018, figures 3c, 3d",
        ("diabetes",),
    ),
    "dola-data": Experiment(
        "experiments.dola_data",
        "regret against the data set",
        "Li et al. 2018, figure 4",
        ("diabetes", "covertype", "adult"),
    ),
    "dola-average": Experiment(
        "experiments.dola_average",
        "the running average as a model",
        "Li et al. 2018, figure 6a",
        ("diabetes",),
    ),
    "dola-batches": Experiment(
        "experiments.dola_batches",
        "mini-batches: regret, and nodes' distance",
        "Li et al. 2018, figures 6b, 6c",
        ("diabetes",),
    ),
    "dola-accuracy": Experiment(
        "experiments.dola_accuracy",
        "accuracy of the SVM",
        "Li et al. 2018, table 3",
        ("adult-binary",),
    ),
    "dola-synthetic": Experiment(
        "experiments.dola_synthetic",
        "regret against privacy and nodes",
        "Li, Zhou, Chen, Jiang 2015, figure 1",
    ),
    "dola-variance": Experiment(
        "experiments.dola_variance",
        "what mini-batches do to the variance",
        "Li, Zhou, Chen, Jiang 2015, figure 2",
    ),
    "dola-sparse": Experiment(
        "experiments.dola_sparse",
        "accuracy against sparsity by set, Sparse DOLA",
        "Li et al. 2018, figure 5b",
        ("reuters", "adult-binary"),
    ),
    "dola-sparsity": Experiment(
        "experiments.dola_sparsity",
        "ranking against sparsity by graph, Sparse DOLA",
        "Li et al. 2018, figure 5a",
        ("reuters",),
    ),
    "collaboration-loans": Experiment(
        "experiments.collaboration_loans",
        "a learner and three owners: interest rates",
        "Wu et al. 2020, figures 2 to 6",
        ("loans",),
    ),
    "collaboration-cards": Experiment(
        "experiments.collaboration_cards",
        "a learner and three owners: card fraud",
        "Wu et al. 2020, figures 7 to 11",
        ("cards",),
    ),
    "collaboration-forecast": Experiment(
        "experiments.collaboration_forecast",
        "whether the forecast holds, and the slopes",
        "Wu et al. 2020, Theorems 2 and 3",
        ("loans", "cards"),
    ),
}
