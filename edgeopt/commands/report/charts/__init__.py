"""Charts as SVG: each is drawn for a width in pixels, in the classes of colour that the page's style sheet has."""
