"""Writes what runs a mesh elsewhere: for each party its own nodes, for the mesh's operator the rest."""
