"""Indices packed into bit streams: BRO in all its forms, and BLSI."""
