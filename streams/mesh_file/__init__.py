"""The mesh file: its settings, its checks, and what it builds."""
