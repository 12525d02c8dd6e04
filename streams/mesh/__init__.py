"""The mesh file: its settings, its checks, and the mesh that it describes."""
