"""The parts of `Filter`: what it can be asked to do, one class for each kind of request."""
