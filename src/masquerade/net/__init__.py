"""Communication between parties: channels, transports, transcripts, identities. Independent of tables."""
