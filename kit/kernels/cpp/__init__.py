"""CPU kernels in C++, compiled on first use."""
