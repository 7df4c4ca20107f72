"""What drives the measuring processes: the cases of a run, sessions, one driver a device, clusters, A/B."""
