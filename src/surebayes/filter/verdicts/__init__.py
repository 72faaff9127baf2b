"""What a filter has said, remembered until the truth is known, and the budgets of alarms that it counts against."""
