"""How nodes and the coordinator talk: TLS on both sides, and problems as documents."""
