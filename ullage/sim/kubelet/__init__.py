"""Simulated kubelets: admission, pod lifecycle, status reports and heartbeats."""
