"""From files to batches: indexed lines, stored token ids, batches as a function of the step, and loaders."""
