"""Who acts and learns. Agents see an environment only through Gymnasium and the protocols of `agents.base`."""
