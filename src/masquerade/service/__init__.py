"""The service around mashups: what parties offer, agree to, keep and record."""
