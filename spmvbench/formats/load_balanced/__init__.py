"""Plain CSR and COO whose entries are dealt out in equal shares, most of them summed through shared memory."""
