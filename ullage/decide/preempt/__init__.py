"""Preemption: which pods must go, and from which node, so that one of higher priority gets its seat."""
