"""Guaranteed thresholds: order statistics, certificates, calibration, drift."""
