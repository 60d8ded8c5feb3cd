"""Read external input (job files, requests, policies, settings), reporting every problem at once."""
