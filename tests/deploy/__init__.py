"""Installation: manifests, chart, permissions, and the commands that apply and remove them."""
