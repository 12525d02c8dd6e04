"""Says which mesh file a process lacks, by the generation in the plans."""


def lacking(newer: int, own: int) -> str:
    """Return the beginning of a line for the operator."""
    return f"plans are made by the mesh file of generation {newer}, which this process lacks (its own: {own})"
