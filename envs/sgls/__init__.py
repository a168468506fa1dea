"""SGLS: a schema-validated tool-calling environment, its embedded tools and its seeded tasks."""
