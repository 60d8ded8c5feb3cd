"""Utility: scores that guide an algorithm, and metrics that judge a release."""
