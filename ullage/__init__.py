"""Ullage: GPU scheduling and autoscaling for Kubernetes. Only the version lives here."""

__version__ = "0.1.0"
