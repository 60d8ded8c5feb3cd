"""The Python API: everything that `import masquerade as mq` offers and the commands use."""
