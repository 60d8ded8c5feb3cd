"""A party's data: tables, columns encoded as ranks, and the taxonomies that give the ranks their meaning."""
