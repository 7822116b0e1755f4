"""Stand-ins for kubelets and kube-controller-manager, next to the API server in memory.

Each actor is two parts. A pure function says what should change (objects and the time in, intended writes out): one
module per question, tested as tables. A thin loop (`actor`) wakes it when something it reads has changed or when its
next deadline comes, never by a fixed poll. Actors speak only `KubeApi` and hold only what they read through informers,
so they run unchanged on virtual time, and next to a real API server just as well.

kube-controller-manager is right by definition: `tests/contract/workloads` holds both to the same behaviour. What lives
here imitates others' decisions; decisions of this project never do.
"""
