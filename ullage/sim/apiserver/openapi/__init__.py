"""OpenAPI v3 documents of the served kinds, as `kubectl explain`, `apply`, `diff` and validation read them."""
