"""Experiments: a workload on a fleet under settings, once or many times, here or elsewhere. Decides nothing itself."""
