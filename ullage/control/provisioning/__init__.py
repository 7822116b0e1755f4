"""Provisioning loop: keeps pools of GPU nodes at their size."""
