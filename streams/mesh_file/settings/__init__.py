"""The settings that a mesh file holds: frozen, checked, unknown keys refused."""
