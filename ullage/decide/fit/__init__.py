"""May this pod go on this node, and if not, why: kube-scheduler's rules, without its GPUs' finer points.

Two forms that must agree, and a test that they do: `rules` asks one node after the other and says why in words;
`vectors` asks all nodes at once and remembers, in codes. Choosing devices and ranking nodes is not done here.
"""
