"""Simulation of everything outside our loops: API server in memory, virtual time, controllers, kubelets, clouds,
faults.

The loops run unchanged. The simulation replaces their surroundings and never a decision.
"""
