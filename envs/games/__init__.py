"""The built-in games, registered with Gymnasium as "entitize/<Name>-v0"."""
