"""Planet Wars: the published game in compiled code, for players who see planets and fleets."""
