"""Fleets: nodes that exist from the beginning, and pools for buying more. No workload, no policy."""
