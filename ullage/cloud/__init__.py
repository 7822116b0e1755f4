"""Where nodes come from: one small protocol (`api`), and the providers that speak it. No decisions are made here."""
