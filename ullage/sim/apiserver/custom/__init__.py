"""Custom kinds: from a definition's structural schema to defaults, pruning, validation and merge rules."""
