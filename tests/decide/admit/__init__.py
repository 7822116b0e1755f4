"""Tests of `ullage.decide.admit`."""
