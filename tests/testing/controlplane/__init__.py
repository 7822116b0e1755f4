"""The real control plane: how it is built, and that it starts, survives crashes and leaves nothing behind."""
