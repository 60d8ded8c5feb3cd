"""What an attacker could do with a table: which columns identify people, and which are safe to publish together."""
