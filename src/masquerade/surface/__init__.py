"""The Python surface: what `import masquerade` gives."""
