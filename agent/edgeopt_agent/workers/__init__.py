"""Worker processes, one a release, and the router that sends requests to them."""
