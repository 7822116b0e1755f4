"""A whole cluster in one event loop: API server, actors, cloud, agents, and the live loops unchanged.

Here things are put together and looked at. Nothing decides here: what a cluster is outside of us is in the other
folders of `sim`, what we decide is in `decide`.
"""
