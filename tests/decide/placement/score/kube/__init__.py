"""Kube."""
