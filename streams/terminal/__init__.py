"""What a person sees: words, tables, plots, the live view."""
