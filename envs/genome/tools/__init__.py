"""The genome tools, one file each, and their registry."""
