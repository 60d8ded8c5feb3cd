"""Counting kernels on integer arrays, which every other package calls instead of numpy's own."""
