"""Several tables in, one release out: scripts of the parties, without I/O."""
