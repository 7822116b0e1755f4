"""Placement: filters, scores and device choice for one pod on one snapshot."""
