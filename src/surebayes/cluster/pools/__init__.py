"""Pools past one machine: ViewPool on documents in parts, a Filter whose documents are read by a Dask cluster."""
