"""What one process does on one device: read, convert, verify and time the formats of a group of cases."""
