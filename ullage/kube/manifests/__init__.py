"""Manifests: objects read from files, with the defaults an API server would fill in."""
