"""Append-only files whose lines are chained by hashes: the audit log, which is also signed, and a party's ledger."""
