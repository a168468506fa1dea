"""Shipped configurations: LEARNER-PRESET.json with the learner's fields and the environment's arguments."""
