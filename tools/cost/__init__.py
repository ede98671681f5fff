"""What an hour uses and what that costs."""
