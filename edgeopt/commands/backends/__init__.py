"""What `edgeopt backends` does: what can run models here, and what can be set on each."""
