"""Remembered verdicts, kept until their correct labels are known, and the budgets that their false alarms spend."""
