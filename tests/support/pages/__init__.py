"""A browser, and attention pages whose every cell is known."""
