"""The service around mashups: offers, negotiation, contracts, storage, and the records that are kept of them."""
