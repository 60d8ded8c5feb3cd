"""Top-down specialization between parties that hold different columns of the same people."""
