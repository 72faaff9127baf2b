"""Models on disk, without pickle: a folder of arrays and a manifest with their checksums."""
