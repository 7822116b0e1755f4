"""Checks of invariants on a snapshot, an API server or its recorded changes."""
