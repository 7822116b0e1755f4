"""Kubernetes API: the `KubeApi` protocol, its HTTP transport, objects, and their conversion to and from facts.

Everything that knows a path, a verb, a field name or a status code of the API server lives here. No decisions,
no loops that run for ever (those are `watch` and `control`).
"""
