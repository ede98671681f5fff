"""One Lambda entry point for each task of the state machine: parse, call one use case, log once, return plain JSON."""
