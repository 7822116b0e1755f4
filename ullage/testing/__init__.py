"""For tests, ours and yours: builders, a real control plane on loopback, and how tests are counted by tier."""
