"""Coordinates."""
