"""Hands: perform one action with its preconditions and return its outcome. Hands never decide."""
