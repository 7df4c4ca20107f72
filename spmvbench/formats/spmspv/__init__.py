"""y = A x for a sparse x (SpMSpV): columns pushed, products sorted or dealt to buckets, tiles."""
