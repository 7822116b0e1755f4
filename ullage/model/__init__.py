"""Nouns: units, quantities, selectors, nodes, pods, devices, events, actions.

Everything here is a frozen record or a function of its arguments, and imports nothing else of ours.
No clock, no chance, no log, no file, no network; and no judgement: that is `decide`.
"""
