"""What is known of runs: of their executions, of the journal, of reports, and of one booking."""
