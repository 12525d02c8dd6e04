"""Audits: what samples of a mechanism prove about it."""
