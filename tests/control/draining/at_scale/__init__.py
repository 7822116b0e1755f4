"""At scale."""
