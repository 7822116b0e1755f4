"""Which nodes can go together, and where their pods would go. Pure: the shell says when time is up."""
