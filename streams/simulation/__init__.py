"""A mesh in virtual time under a seeded adversary: the real machines and shells, watched event by event."""
