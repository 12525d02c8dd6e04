"""What releases cost, and what is promised."""
