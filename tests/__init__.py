"""Tests mirror the package; `contract/` runs on both Kubernetes APIs, `stories/` in virtual time."""
