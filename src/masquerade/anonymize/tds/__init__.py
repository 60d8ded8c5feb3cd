"""Top-down specialization: start with everything general, and specialise as long as the requirement holds."""
