"""Storage of models without pickle: a folder with arrays, and a manifest with their checksums."""
