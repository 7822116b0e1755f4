"""Draining."""
