"""Experiments: runs of a workload on a fleet under settings, one or many, here or on other machines.

Makes no decisions.
"""
