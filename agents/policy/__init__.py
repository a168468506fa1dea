"""A LoRA language-model policy: loading, chat rendering, exact candidate scoring, token-exact sampling."""
