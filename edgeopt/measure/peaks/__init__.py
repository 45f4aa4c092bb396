"""What this device reaches at best: its peaks in arithmetic and memory (`edgeopt probe --deep`)."""
