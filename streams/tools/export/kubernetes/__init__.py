"""Kubernetes manifests and a kustomization, made of plain dictionaries.

Names here are made by `names` alone, which refuses two that would be one.
"""
