"""The runtime: the machines on real sockets and disks. So far: how messages look on the wire."""
