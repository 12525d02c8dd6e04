"""A collaboration of a learner and owners: its file, messages, rights, journals, roles and processes."""
