"""Scores: order among the nodes that fit."""
