"""What people and other programs write (job files, requests, policies, settings), read with every problem at once."""
