"""All of a collaboration of a learner and owners: its file, messages, rights, journals, roles, processes."""
