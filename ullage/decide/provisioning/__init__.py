"""Provisioning decisions: pools of nodes, their sizes, and purchases."""
