"""The coordinator's HTTP API: `/api/v1` for people and their programs, health and metrics for operators."""
