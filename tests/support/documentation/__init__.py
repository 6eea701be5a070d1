"""What runs the code blocks of the documentation and compares what they print."""
