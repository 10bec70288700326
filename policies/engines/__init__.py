"""The engines that compute RogueNet, and the choice between them."""
