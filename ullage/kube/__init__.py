"""Kubernetes, spelled in one place: the `KubeApi` protocol, its HTTP side, objects on the wire, and back.

Everything that knows a path, a verb, a field name or a status code of the API server lives here. No decisions,
no loops that run for ever (those are `watch` and `control`).
"""
