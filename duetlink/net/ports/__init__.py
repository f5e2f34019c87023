"""TCP services of one side that the other reaches through the link, as if on its own machine."""
