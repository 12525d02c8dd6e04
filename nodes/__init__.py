"""One node's learning: mirror maps, losses, mechanisms, accounting, algorithms, the node machine. Pure."""
