"""Which node is best: numbers for nodes that fit, by named policies.

`policies` is the list of names; `fragmentation` the default. GPU policies look at columns of what is left on each node
and never at a pod or a node object.
"""
