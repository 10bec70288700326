"""Orbit Wars: the published game in compiled code, for players that observe planets and fleets."""
