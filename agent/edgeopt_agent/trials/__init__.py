"""Commands of edgeopt that measure on this device for a client elsewhere: `edgeopt probe --on https://…`."""
