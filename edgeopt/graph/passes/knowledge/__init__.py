"""What passes know of operators, and how they find and change them; no passes of their own."""
