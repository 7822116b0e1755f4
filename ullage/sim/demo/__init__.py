"""What `ullage demo` plays: stories as data, who tells them on a simulated world, and what the terminal shows of it.

Nothing decides here, and nothing here knows of sockets or browsers: the command line puts those beside it.
"""
