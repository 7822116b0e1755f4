"""The node daemon: what GPUs this node has and how they are, published for the scheduler."""
