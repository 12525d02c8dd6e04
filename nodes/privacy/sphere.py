"""Directions: vectors on the unit sphere, from normal draws."""

import numpy as np

from nodes.values import FloatArray


def directions(normals: FloatArray) -> FloatArray:
    """Return `normals` (..., d), not kept, each scaled to norm 1; a zero vector becomes the first axis."""
    sizes = np.sqrt(np.add.reduce(normals * normals, -1, keepdims=True))
    normals[..., :1] += sizes == 0.0
    unit: FloatArray = normals / np.where(sizes == 0.0, 1.0, sizes)
    return unit
