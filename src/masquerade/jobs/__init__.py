"""A job: the TOML file that sets the inputs, the privacy requirements, the algorithm and the outputs."""
