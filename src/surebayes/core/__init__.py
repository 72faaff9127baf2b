"""Statistics -> estimate -> score -> decide: the mathematics of the papers, on numpy and scipy alone."""
