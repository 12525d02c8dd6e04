"""A collaboration of a learner and owners: roles, processes on a broker, and all in one process."""
