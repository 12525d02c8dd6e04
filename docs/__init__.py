"""The documentation, and the code that generates its reference parts."""
