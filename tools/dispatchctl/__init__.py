"""`dispatchctl`: the operator's command line, the same against an account and against the embedded AWS."""
