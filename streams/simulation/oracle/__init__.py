"""The oracle: what must hold after every event of a simulated history.

Its code is its own. It reads bytes as docs/reference/wire.md describes them, mixes, counts charges and prices
releases. It imports nothing of the mesh, which a contract of import-linter ensures. So a fault in the codec,
the chain, the weights, a ledger or a journal is a fault of the product alone, and the oracle sees it.
"""
