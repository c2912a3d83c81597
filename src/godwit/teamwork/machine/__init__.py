"""What a peer of a team decides: changes and what they add up to, rights, what peers exchange."""
