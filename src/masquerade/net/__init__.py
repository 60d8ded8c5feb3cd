"""How parties talk: channels, transports, transcripts, identities. Nothing here knows of tables."""
