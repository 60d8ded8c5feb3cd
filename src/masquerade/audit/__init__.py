"""Append-only files of hash-chained lines: the audit log, which is also signed, and a party's ledger."""
