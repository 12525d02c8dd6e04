"""What a node keeps on its disk: its journal, and what its data has cost."""
