"""The embedded tool pack: tools with JSON Schemas and deterministic back ends in plain Python, one file per domain."""
