"""`python -m toolcredit`: the same as the `toolcredit` command."""

from .cli.main import main

main()
