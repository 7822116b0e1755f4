"""A whole cluster in one event loop: API server, controllers, cloud, agents, and the live loops unchanged.

This folder assembles and observes. It makes no decisions: those are in `decide`. The simulated parts outside our
processes are in the other folders of `sim`.
"""
