"""Contact sheets of all pages, in every state and both themes, made by the app itself: `make screenshots`."""
