"""Clouds: the `CloudProvider` protocol and its providers. They create, delete and list nodes; they never decide."""
