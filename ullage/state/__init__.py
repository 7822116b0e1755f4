"""Memory: one state of the cluster, changed by events only. `ClusterState.apply(event)` is the one mutator.

Pure and synchronous: time is an argument, nothing is read from outside, nothing is written to it, and no decision is
taken here.
"""
