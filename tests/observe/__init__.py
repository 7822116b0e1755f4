"""Tests of `ullage.observe`."""
