"""Settings: documented fields with units and defaults, errors that name the path of the bad value.

May read files and the environment. Never talks to a cluster and never decides.
"""
