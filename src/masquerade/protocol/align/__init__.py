"""Find the common records of parties without showing identifiers."""
