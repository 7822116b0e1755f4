"""What a node's GPUs are, from what was seen of them: identity, islands, health, users. Pure."""
