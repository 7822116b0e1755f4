"""Simulated kube-controller-manager: workload, node, disruption, garbage and namespace controllers over the API."""
