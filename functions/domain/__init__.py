"""Pure rules: no AWS, no clock, no environment, no logger."""
