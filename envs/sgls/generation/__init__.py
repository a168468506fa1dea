"""How the seeded generator makes tasks: goals from recipes, plans from goals, drafts of tasks, and their wordings."""
