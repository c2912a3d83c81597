"""What the laws, the papers and the wire promise, one test each."""
