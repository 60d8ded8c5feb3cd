"""A first job file for a table: what its columns are, which roles they have, and taxonomies for them."""
