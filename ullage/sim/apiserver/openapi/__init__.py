"""What the served kinds look like, as OpenAPI v3: what `kubectl explain`, `apply`, `diff` and validation read."""
