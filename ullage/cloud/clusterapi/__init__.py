"""Nodes through Cluster API."""
