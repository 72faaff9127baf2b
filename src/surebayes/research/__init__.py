"""The research: the papers reproduced, comparisons of classifiers, the TREC jig."""
