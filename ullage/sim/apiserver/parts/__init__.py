"""Parts of objects with verbs of their own: binding, eviction, scale, finalize."""
