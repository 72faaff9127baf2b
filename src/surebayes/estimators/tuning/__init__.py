"""TunedNB: the classifier and the setting that suit the data, found on training documents at the cost of a few fits."""
