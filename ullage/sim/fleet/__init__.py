"""Fleets: the nodes there are from the beginning, and the pools more can be bought for. No workload, no policy."""
