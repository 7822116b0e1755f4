"""Object store with revisions and history, and the watches on it."""
