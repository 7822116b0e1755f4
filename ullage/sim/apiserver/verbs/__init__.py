"""Handlers, one module per verb or subresource."""
