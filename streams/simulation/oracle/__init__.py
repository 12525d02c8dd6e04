"""What must hold after every event of a simulated history, told by code of its own.

It reads bytes as docs/reference/wire.md describes them, mixes, counts charges and prices releases by itself.
It imports nothing of the mesh (a contract of import-linter holds that): a fault in the codec, the chain, the
weights, a ledger or a journal is a fault of the product alone, and shows.
"""
