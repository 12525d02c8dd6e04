"""What nodes have spent, and what is left: from a node's own journal, or from what is public."""
