"""Talking to a language model: OpenAI-compatible client and local transformers models. Uses no other folder."""
