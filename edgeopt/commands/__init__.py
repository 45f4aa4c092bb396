"""What each command does, a folder for each: above the engines, below the command line."""
