"""Generated parts of the documentation: one module for each kind."""
