"""Thresholds one can vouch for: order statistics, certificates, calibration, drift."""
