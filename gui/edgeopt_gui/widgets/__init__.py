"""Small widgets that several pages use; none of them knows what it shows."""
