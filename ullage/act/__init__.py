"""Actuators: perform one intent with its preconditions and return its outcome. Actuators never decide."""
