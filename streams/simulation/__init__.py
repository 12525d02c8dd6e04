"""A mesh in virtual time under a seeded adversary.

It runs the product's machines and shells, and an oracle checks every event.
"""
