"""Actions as data: one table feeds menus, shortcuts, the toolbar of each page and the command palette."""
