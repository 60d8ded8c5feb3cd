"""Which party has the best candidate, without its score."""
