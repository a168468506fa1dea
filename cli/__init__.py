"""The `toolcredit` command: one file per verb."""
