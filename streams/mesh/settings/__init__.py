"""The settings of a mesh file, each checked by itself."""
