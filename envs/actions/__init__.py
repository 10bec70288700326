"""The kinds of actions: spaces, masks, legality, sampling."""
