"""Another world for the same loops: an API server in memory, virtual time, simulated actors, faults.

Replaces what is outside (API server, kubelets, controllers, clouds, time); never a decision.
"""
