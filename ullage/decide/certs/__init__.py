"""Certificate rotation: the next step, and its instant. Pure."""
