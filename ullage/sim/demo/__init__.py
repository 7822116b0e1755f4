"""Stories of `ullage demo`: story data, the player that runs a story on a simulated world, and the terminal view.

No decisions are made here, and nothing here knows of sockets or browsers: the command line adds those.
"""
