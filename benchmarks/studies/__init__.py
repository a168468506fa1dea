"""Reproduced studies: one file each, with the command that makes its tables."""
