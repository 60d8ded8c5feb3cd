"""The models that parties learn together: read from JSON, written as JSON, and asked for predictions."""
