"""C++ for what a CPU does again and again while it writes token by token, compiled where it runs."""
