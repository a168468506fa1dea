"""τ²-bench (arXiv 2506.07982): dialogues with a user and a database, judged by the state that they leave behind."""
