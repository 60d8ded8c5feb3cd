"""Tables whose rows are in chunks, on this machine or a cluster: the same methods, on counts that an engine adds up."""
