"""What ``polygateway probe`` is made of: requests, what came of them, and what that says."""
