"""The device's peaks: its highest rates in arithmetic and memory (`edgeopt probe --deep`)."""
