"""Cloud providers: the protocol (`api`) and its implementations. No decisions are made here."""
