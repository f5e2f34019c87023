"""From a session code to a link between two notebooks, by whatever path the networks allow."""
