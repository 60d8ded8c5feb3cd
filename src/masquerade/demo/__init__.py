"""The demonstration: a coordinator and three parties on this machine, with generated data."""
