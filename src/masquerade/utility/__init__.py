"""What is kept: scores that guide an algorithm, metrics that judge a release."""
