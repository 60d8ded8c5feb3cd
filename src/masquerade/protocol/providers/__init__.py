"""Providers that hold the same attributes about different people publish together, with or without a third party."""
