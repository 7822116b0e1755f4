"""Tests of `ullage.testing`."""
