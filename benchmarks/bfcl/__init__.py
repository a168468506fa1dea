"""The Berkeley Function Calling Leaderboard (BFCL) V3 and V4: data, scorers, multi-turn loop, official aggregates."""
