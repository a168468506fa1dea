"""`python -m toolcredit.agents.exact` prints the tables of docs/estimators.md."""

from .table import tables

if __name__ == "__main__":
    print(tables(), end="")
