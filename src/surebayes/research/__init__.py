"""Research: reproductions of the papers, comparisons of classifiers, the TREC jig."""
