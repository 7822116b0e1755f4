"""Nodes drained for real: `ullage scheduler` and `ullage controller` as programs, on the real control plane."""
