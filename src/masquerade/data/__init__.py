"""What a party holds: tables, their columns as ranks, and the taxonomies that give ranks their meaning."""
