"""Embedded data files; PROVENANCE.md beside them names source and licence of each."""
