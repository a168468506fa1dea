"""Spaces for text observations: direct subclasses of `gymnasium.Space` that can sample valid elements."""
