"""The dashboard over HTTP: pages, the stream of patches, explanations on demand. Knows rows, not what they mean."""
