"""What the classifiers share: learning and forgetting, labels, parameters, delegation."""
