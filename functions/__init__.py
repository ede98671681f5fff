"""What runs in AWS Lambda: handlers call use cases, use cases call the domain, adapters are passed in."""
