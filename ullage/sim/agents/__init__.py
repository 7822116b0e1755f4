"""Agents of simulated nodes: the real agent's code on simulated GPUs, with hardware faults on demand.

`fleet.SimulatedAgents` watches the nodes and runs an agent on each that has GPUs. The agent's code judges, reports and
writes the state of a GPU; nothing of that is repeated here.
"""
