"""Scripts that draw the figures and tables of the papers, and ours: `python -m experiments`."""
