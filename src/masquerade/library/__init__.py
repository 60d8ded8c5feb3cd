"""The Python surface: what `import masquerade as mq` offers, and what the commands are made of."""
