"""What an action is worth: pure functions of plain data. Nothing here imports an environment, an agent or a model."""
