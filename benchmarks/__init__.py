"""How agents are compared: strategies, statistics, reports."""
