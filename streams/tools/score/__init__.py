"""Scores the messages of a topic with a model, each once."""
