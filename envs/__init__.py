"""What an agent acts in: spaces, the genome tool-subset bandit, and the exhaustive reward table."""
