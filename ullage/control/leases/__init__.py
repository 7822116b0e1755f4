"""GPU Leases: garbage collection of those that are over, and restoring of those that were deleted."""
