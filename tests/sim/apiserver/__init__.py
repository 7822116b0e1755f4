"""The simulated API server at the level of requests, answers and watch lines. What it shares with the real one is in
`tests/contract`; here is what only a simulated one can show, and the pure parts it is made of."""
