"""PettingZoo's multi-agent games as entity environments, and back."""
