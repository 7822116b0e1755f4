"""Test support, for us and for users: builders, a real control plane on loopback, and the test tiers."""
