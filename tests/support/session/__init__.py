"""What a whole test session shares: which tests `--quick` takes, and the compiled C++."""
