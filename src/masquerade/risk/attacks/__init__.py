"""Attacks on a release, one file each; `registry.py` lists them."""
