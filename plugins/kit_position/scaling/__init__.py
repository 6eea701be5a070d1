"""Context extension of RoPE beyond the training length, one file each: parts of the kind `scaling`."""
