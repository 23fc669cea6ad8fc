"""What every room needs once: types, seeds, argument checks, memory, whole files, compilation."""
