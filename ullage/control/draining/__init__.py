"""The loop that drains nodes whose pods have a place elsewhere, and removes them."""
