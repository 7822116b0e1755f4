"""HTTP server of the dashboard: pages, the stream of patches, explanations on demand. Does not interpret rows."""
