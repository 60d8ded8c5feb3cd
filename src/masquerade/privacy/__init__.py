"""What must hold: one file a requirement, each with its check on the counts of a group."""
