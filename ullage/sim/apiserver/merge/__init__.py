"""Patches and server-side apply: merge, JSON and strategic patches, merge schemas and managed fields."""
