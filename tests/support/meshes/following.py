"""A small mesh that follows a target by public directions, as changes of the tracking mesh."""

PLACES = {"a": [-1, 1.5], "b": [0, 2], "c": [1, 1.5], "d": [0.2, -1.8]}
BOX = {"box": {"lower": [-2, -2, -0.5, -0.5], "upper": [2, 2, 0.5, 0.5]}}
FOLLOWING = {
    "nodes": {name: {"place": place} for name, place in PLACES.items()},
    "dimension": 4,
    "algorithm": {
        "name": "dpdo-nc",
        "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 0.5},
        "constraint": BOX,
        "curvature": "public",
        "jerk": 0.05,
        "error": 0.02,
        "presence": 0.97,
        "mirror_map": None,
        "step_size": None,
    },
    "privacy": {"mechanism": "l2-sphere", "epsilon": 1, "noise": "simulated", "gradient_bound": None},
}
"""None: not given."""


def following(tree):
    """A tracking tree with these changes."""
    mesh = tree["mesh"] | {"nodes": FOLLOWING["nodes"], "dimension": FOLLOWING["dimension"]}
    for part in ("algorithm", "privacy"):
        mesh[part] = {key: value for key, value in FOLLOWING[part].items() if value is not None}
    return tree | {"mesh": mesh}
