"""Where records come from, and how they become features and labels."""
