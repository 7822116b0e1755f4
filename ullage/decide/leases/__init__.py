"""GPU Leases: the decision to keep or to release a hold."""
