"""Inventory of a node's GPUs from GPU readings: identity, islands, health, users. Pure."""
