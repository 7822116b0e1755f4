"""Draining: the loop that removes nodes whose pods have a place elsewhere."""
