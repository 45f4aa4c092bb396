"""How the app looks: the system's palette, light or dark, icons, and the few colours that charts need."""
