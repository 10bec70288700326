"""Entity games behind PettingZoo's interfaces."""
