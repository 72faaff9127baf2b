"""Guarantees about thresholds: certificates, budgets of alarms, calibration of probabilities, and drift tests."""
