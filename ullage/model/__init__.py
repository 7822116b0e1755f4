"""Facts and other frozen records: units, quantities, selectors, nodes, pods, devices, events, intents, outcomes.

Everything here is a frozen record or a function of its arguments. Of ours it imports only `errors`.
No clock, no randomness, no log, no file, no network. Decisions are made in `decide`.
"""
