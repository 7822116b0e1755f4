"""Filters: rules that a node must pass, for one node and as vectors over all rows."""
