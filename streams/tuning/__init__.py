"""Proposes clip, step and slot size from a pilot: data that are public, or made up."""
