"""Frozen reasoners, one file each, and their registry."""
