"""The machine of a peer: changes and the records they produce, rights, and the exchange between peers."""
