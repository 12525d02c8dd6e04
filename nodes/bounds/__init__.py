"""Upper bounds on regret: what the papers' theorems promise for a mesh, from its public settings alone."""
