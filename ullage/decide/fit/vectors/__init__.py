"""The rules for one pod and all nodes at once, remembered per shape and repaired per changed row."""
