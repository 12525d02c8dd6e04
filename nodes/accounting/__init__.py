"""The cost of releases, and the guarantee that follows."""
