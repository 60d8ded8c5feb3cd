"""One table in, one release out."""
