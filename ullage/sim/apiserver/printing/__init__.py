"""Objects as rows of a table, as `kubectl get` shows them: the server prints, so that clients need not know kinds."""
