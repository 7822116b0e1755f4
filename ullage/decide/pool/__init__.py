"""S0: how large each pool of GPU nodes should be, and the next step towards it."""
