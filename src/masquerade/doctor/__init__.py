"""Checks of an installation: certificates, clocks, versions, state, peers."""
