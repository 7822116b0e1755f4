"""The loop that keeps pools of GPU nodes at their size."""
