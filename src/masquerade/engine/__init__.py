"""Where counting runs: kernels on integer arrays, which every other room calls instead of numpy's own."""
