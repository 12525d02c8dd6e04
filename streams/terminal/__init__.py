"""Output for people: words, tables, plots, live views."""
