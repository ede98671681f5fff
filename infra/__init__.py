"""What stands in the AWS account: one thin stack of constructs, each named for what it gives."""
