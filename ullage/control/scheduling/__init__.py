"""The scheduler: what is heard is news for waiting pods, decisions are made one by one, writes go on beside them."""
