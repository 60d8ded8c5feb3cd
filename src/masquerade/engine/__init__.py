"""Where counting runs: the kernels that every algorithm, check and metric is made of."""
