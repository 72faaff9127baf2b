"""Models on disk, without pickle: a folder of arrays and the manifest that vouches for it."""
