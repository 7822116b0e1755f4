"""Served kinds: their registry, shared metadata rules, and kinds of CustomResourceDefinitions."""
