"""One learner: mirror maps, constraints, losses, algorithms, slots, the node machine, regret. Pure."""
