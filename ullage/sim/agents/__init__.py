"""Agents of simulated nodes: the real agent's code on GPUs that are not there, and misfortunes on demand.

`fleet.SimulatedAgents` watches the nodes and runs an agent on each that has GPUs. What a GPU's state means, when
to tell whom, and how it is written is the agent's own business and not repeated here.
"""
