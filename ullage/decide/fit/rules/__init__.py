"""The rules for one pod and one node, in words: what `explain` says, and what the vectors are tested against."""
