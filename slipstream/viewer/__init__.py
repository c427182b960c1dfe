"""The page of runs, flights and duels, and the server that shows it. Sources of the page are in web/."""
