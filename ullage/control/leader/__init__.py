"""Leader election: terms of leadership, and the guards that refuse writes outside them."""
